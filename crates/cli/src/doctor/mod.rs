//! Checks a host for what hostlet needs, before the daemon runs and without it: thin gatherers of facts, pure checks over them,
//! and fixes that get a fresh host ready. Changes nothing unless a fix is asked for, and never what a person configured.

mod certificate;
mod checks;
mod facts;
mod fix;
mod gather;
mod report;
mod toml_config;

pub use checks::check;
pub use facts::Facts;
pub use fix::{Fix, FixError, Fixer, plan};
pub use gather::{Place, gather};
pub use report::{Finding, Level};

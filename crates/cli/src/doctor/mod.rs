//! Checks a host for what hostlet needs, before the daemon runs and without it: thin gatherers of facts, pure checks over them,
//! and fixes that get a fresh host ready. Changes nothing unless a fix is asked for, and never what a person configured.

mod certificate;
mod checks;
mod facts;
mod fix;
mod gather;
mod report;
mod toml_config;

pub(crate) use checks::check;
pub(crate) use facts::Facts;
pub(crate) use fix::{Fixer, plan};
pub(crate) use gather::{Place, gather};
pub(crate) use report::{Finding, Level};

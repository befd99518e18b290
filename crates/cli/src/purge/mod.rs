//! Removes what hostlet made on this host, before its package is removed: its pods and its own files. Nothing of a stock kubelet,
//! nothing that a person wrote, and no pod that hostlet did not record. Works while no daemon runs.

mod facts;
mod perform;
mod plan;

pub(crate) use facts::{iptables, purge_facts};
pub(crate) use perform::Purger;
pub(crate) use plan::{PurgePlan, purge_plan};

//! What the runtime and the host do: PLEG, logs, usage, and the statuses computed from that. Never starts or stops anything.

pub mod log;
pub mod pleg;
pub mod stats;
pub mod status;

#[cfg(test)]
hostlet_host::work_in_place!();

//! The circle of pods: what should run, whether it may, the work for it, and what remains afterwards. Never waits for the API server,
//! and knows it only as the values in `hostlet_pod`.

pub mod admission;
pub mod container_logs;
pub mod cri_config;
pub mod engine;
pub mod eviction;
mod gate;
pub mod grants;
pub mod housekeeping;
mod lifecycle;
pub mod ownership;
mod probe;
pub mod shutdown;
pub mod source;
pub mod worker;

#[cfg(test)]
hostlet_host::work_in_place!();

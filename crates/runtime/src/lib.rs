//! The container runtime: its traits and its client, and the streams of commands and forwarded ports that it serves. Never
//! retries or decides.

pub mod cri;
pub mod spdy;
pub mod streaming;

#[cfg(test)]
hostlet_host::work_in_place!();

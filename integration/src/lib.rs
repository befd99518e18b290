//! The support code of hostlet's tests: waits, the daemon as a process, a fake runtime on a socket, hosts with a fake or a
//! real runtime to run the daemon on, and a cluster for them to join. Has no tests and no product code.

pub mod cluster;
pub mod csi;
pub mod device_plugin;
pub mod fake_cri;
pub mod ginkgo;
pub mod hollow;
pub mod monitoring;
pub mod real;
pub mod samples;
pub mod storm;

mod daemon;
mod fake_api;
mod fake_logind;
mod manifests;
mod plugin_process;
mod shell;
mod wait;

pub use daemon::{Daemon, program};
pub use fake_api::FakeApiServer;
pub use fake_logind::{FakeLogind, Lock};
pub use wait::{Look, wait_for};

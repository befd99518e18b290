//! hostlet: a kubelet for Linux hosts.
//!
//! The rooms and the way data takes through them are drawn in `ARCHITECTURE.md`. A room imports only
//! rooms of a lower level; the `tidy` test holds that.

pub mod api;
pub mod app;
pub mod cgroup;
pub mod cli;
pub mod config;
pub mod cri;
pub mod image;
pub mod log;
pub mod pleg;
pub mod pod;
pub mod server;
pub mod store;
pub mod sys;
pub mod telemetry;
pub mod types;
pub mod volume;

//! hostlet: a kubelet for Linux hosts.
//!
//! `ARCHITECTURE.md` describes the rooms and the data flow between them. A room imports only rooms of lower levels, which
//! `tests/tidy` enforces.

pub mod admission;
pub mod api;
pub mod api_objects;
pub mod api_pods;
pub mod app;
pub mod cgroup;
pub mod cli;
pub mod config;
pub mod container_logs;
pub mod cri;
pub mod cri_config;
pub mod doctor;
pub mod dra;
pub mod eviction;
pub mod explain;
pub mod gate;
pub mod housekeeping;
pub mod http;
pub mod image;
pub mod kubelet_api;
pub mod lifecycle;
pub mod log;
pub mod node;
pub mod objects;
pub mod ownership;
pub mod pleg;
pub mod plugin;
pub mod pod;
pub mod probe;
pub mod publish;
pub mod purge;
pub mod server;
pub mod shutdown;
pub mod source;
pub mod spdy;
pub mod stats;
pub mod status;
pub mod store;
pub mod streaming;
pub mod supervisor;
pub mod sys;
pub mod telemetry;
pub mod tls;
pub mod types;
pub mod volume;
pub mod worker;
mod yaml;

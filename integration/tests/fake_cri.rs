//! The real daemon on a fake CRI server: its user interface, and its behavior with a runtime that is unavailable, slow, hung or
//! faulty. Needs root, but no containerd.

#[path = "fake_cri/away.rs"]
mod away;
#[path = "fake_cri/certificates.rs"]
mod certificates;
#[path = "fake_cri/cluster.rs"]
mod cluster;
#[path = "fake_cri/commands.rs"]
mod commands;
#[path = "fake_cri/config.rs"]
mod config;
#[path = "fake_cri/crashes.rs"]
mod crashes;
#[path = "fake_cri/credentials.rs"]
mod credentials;
#[path = "fake_cri/csi.rs"]
mod csi;
#[path = "fake_cri/dashboards.rs"]
mod dashboards;
#[path = "fake_cri/devices.rs"]
mod devices;
#[path = "fake_cri/errors.rs"]
mod errors;
#[path = "fake_cri/eviction.rs"]
mod eviction;
#[path = "fake_cri/first_start.rs"]
mod first_start;
#[path = "fake_cri/healthz.rs"]
mod healthz;
#[path = "fake_cri/hung.rs"]
mod hung;
#[path = "fake_cri/images.rs"]
mod images;
#[path = "fake_cri/large.rs"]
mod large;
#[path = "fake_cri/load.rs"]
mod load;
#[path = "fake_cri/manifests.rs"]
mod manifests;
#[path = "fake_cri/metrics.rs"]
mod metrics;
#[path = "fake_cri/monitoring.rs"]
mod monitoring;
#[path = "fake_cri/plugins.rs"]
mod plugins;
#[path = "fake_cri/pods.rs"]
mod pods;
#[path = "fake_cri/probes.rs"]
mod probes;
#[path = "fake_cri/quiet.rs"]
mod quiet;
#[path = "fake_cri/runtime.rs"]
mod runtime;
#[path = "fake_cri/shutdown.rs"]
mod shutdown;
#[path = "fake_cri/store.rs"]
mod store;
#[path = "fake_cri/supervisor.rs"]
mod supervisor;
#[path = "fake_cri/support.rs"]
mod support;
#[path = "fake_cri/traces.rs"]
mod traces;
#[path = "fake_cri/upgrade.rs"]
mod upgrade;
#[path = "fake_cri/url.rs"]
mod url;

//! The harness and hostlet on a real containerd, the first one in PATH. Needs root and the programs that `integration/test.sh`
//! installs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![allow(clippy::print_stdout, reason = "a test tells its seed, and what it measured")]

#[path = "containerd/adoption.rs"]
mod adoption;
#[path = "containerd/boot.rs"]
mod boot;
#[path = "containerd/broken_results.rs"]
mod broken_results;
#[path = "containerd/commands.rs"]
mod commands;
#[path = "containerd/cpus.rs"]
mod cpus;
#[path = "containerd/devices.rs"]
mod devices;
#[path = "containerd/exec.rs"]
mod exec;
#[path = "containerd/explain.rs"]
mod explain;
#[path = "containerd/hanging_filesystem.rs"]
mod hanging_filesystem;
#[path = "containerd/harness.rs"]
mod harness;
#[path = "containerd/image_gc.rs"]
mod image_gc;
#[path = "containerd/image_volumes.rs"]
mod image_volumes;
#[path = "containerd/kept_tasks.rs"]
mod kept_tasks;
#[path = "containerd/large.rs"]
mod large;
#[path = "containerd/late.rs"]
mod late;
#[path = "containerd/life.rs"]
mod life;
#[path = "containerd/logs.rs"]
mod logs;
#[path = "containerd/manifests.rs"]
mod manifests;
#[path = "containerd/memory_alarm.rs"]
mod memory_alarm;
#[path = "containerd/pods.rs"]
mod pods;
#[path = "containerd/preload.rs"]
mod preload;
#[path = "containerd/probes.rs"]
mod probes;
#[path = "containerd/pulls.rs"]
mod pulls;
#[path = "containerd/restarts.rs"]
mod restarts;
#[path = "containerd/samples.rs"]
mod samples;
#[path = "containerd/shutdown.rs"]
mod shutdown;
#[path = "containerd/storm/mod.rs"]
mod storm;
#[path = "containerd/support.rs"]
mod support;
#[path = "containerd/volumes.rs"]
mod volumes;

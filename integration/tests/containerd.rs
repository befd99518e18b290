//! The harness, then hostlet itself, on a real containerd. Needs root and what `integration/test.sh` installs.

#[path = "containerd/adoption.rs"]
mod adoption;
#[path = "containerd/harness.rs"]
mod harness;
#[path = "containerd/large.rs"]
mod large;
#[path = "containerd/manifests.rs"]
mod manifests;
#[path = "containerd/pods.rs"]
mod pods;
#[path = "containerd/preload.rs"]
mod preload;
#[path = "containerd/restarts.rs"]
mod restarts;
#[path = "containerd/storm/mod.rs"]
mod storm;
#[path = "containerd/support.rs"]
mod support;
#[path = "containerd/volumes.rs"]
mod volumes;

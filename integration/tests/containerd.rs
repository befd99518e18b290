//! The harness, then hostlet itself, on a real containerd. Needs root and what `integration/test.sh` installs.

#[path = "containerd/harness.rs"]
mod harness;

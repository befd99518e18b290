//! The real daemon on a fake CRI server: what a person sees of it, and how it bears a runtime that is away, slow, hung or
//! wrong. Needs root, and no containerd.

#[path = "fake_cri/hung.rs"]
mod hung;
#[path = "fake_cri/pods.rs"]
mod pods;
#[path = "fake_cri/runtime.rs"]
mod runtime;
#[path = "fake_cri/support.rs"]
mod support;

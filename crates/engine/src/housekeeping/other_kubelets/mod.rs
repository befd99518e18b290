//! Detects other kubelets on the same runtime: each would remove the other's pods as leftovers. They are reported, not touched.

mod task;

pub use task::OtherKubelets;

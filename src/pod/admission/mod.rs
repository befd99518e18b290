//! Which of the pods a source names may run on this node. Pure; never changes a pod.

mod admit;
mod sysctls;

pub use admit::{Limits, admit};

//! Processes of the host: kubelets, the runtime's shims, and this one. Does not decide what happens to any.

mod kubelets;
mod shims;
mod usage;

pub use kubelets::{KubeletProcess, kubelets};
pub use shims::{Shim, end_shim, shims};
pub use usage::ProcessUsage;

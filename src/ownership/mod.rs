//! Whose pods the runtime has: the record that hostlet ran here before, the pods that it did not start, other kubelets. Makes a
//! first start safe. Changes no pod, and nothing on the host but its own record.

mod claim;
mod endpoint;
mod first_start;
mod kubelets;
mod runtime_pods;

pub use claim::{Claim, KnownClaim};
pub use first_start::{History, Refusal, first_start_refusal, history};
pub use kubelets::{OtherKubelet, kubelet_listener, other_kubelets};
pub use runtime_pods::runtime_pods;

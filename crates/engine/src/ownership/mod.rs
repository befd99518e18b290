//! Whose pods these are: the records that hostlet ran here before and which pods are its own, what others have in the runtime and
//! on the host, other kubelets. Makes a first start safe. Changes no pod, and nothing on the host but its own records.

mod claim;
mod endpoint;
mod first_start;
mod kubelets;
mod own_pods;
mod remains;
mod runtime_pods;

pub use claim::{Claim, KnownClaim};
pub(crate) use first_start::BESIDE;
pub use first_start::{Foreign, History, StartRejection, Unrunnable, first_start_rejection, history};
pub use kubelets::{OtherKubelet, kubelet_listener, other_kubelets};
pub use own_pods::{OwnPods, recorded_pods};
pub use remains::{Remains, RemainsError, about_remains, remains_of_others};
pub use runtime_pods::{running_pods, runtime_pods};

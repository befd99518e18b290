//! `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`) of Kubernetes 1.37 as in a file: every field, optional, with
//! upstream's name. No defaults, no validation.

mod auth;
mod kubelet;
mod logging;
mod node;
mod policies;
mod scalars;
#[cfg(test)]
mod tests;

pub(super) use auth::AuthorizationMode;
pub(super) use kubelet::{API_VERSION, KIND, KubeletConfiguration};
pub(super) use logging::LogFormat;
pub(super) use policies::{
    CgroupDriver, ChangeDetection, CpuManagerPolicy, CredentialsVerification, HairpinMode,
    MemoryManagerPolicy, MemoryReservationPolicy, SwapBehavior, TlsVersion,
};
pub use policies::{TopologyManagerPolicy, TopologyManagerScope};
pub(super) use scalars::QuantityText;

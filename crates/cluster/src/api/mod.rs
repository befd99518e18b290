//! The API server's client: connections from a kubeconfig, classified errors, watches, events and patches. Never knows the runtime.

mod certificates;
mod connect;
mod credentials;
mod error;
pub mod events;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod follow;
mod kubeconfig;
mod kubeconfig_files;
mod limit;
mod objects;
pub(crate) mod patch;
mod pause;
mod pool;
#[cfg(test)]
mod proxy_tests;
mod requests;
mod retry_after;

pub use certificates::{
    CertificateReport, CertificateSettings, ClientCertificateTask, IssuedCertificate, ServingCertificateTask,
    ServingMetrics, ServingSettings, register_certificate,
};
pub use connect::{ClientOptions, ConnectError, PrioritizedClients, connect, connect_prioritized};
pub use credentials::{Credentials, CredentialsSource, CredentialsTask};
pub(crate) use error::{ApiErrorKind, error_kind, message, retry_after};
pub(crate) use follow::{FollowError, Notification, follow, follow_with_recovery};
pub use kubeconfig_files::{
    KubeconfigCertificate, KubeconfigProblem, kubeconfig_certificates, kubeconfig_secrets,
};
pub use objects::{TypedApi, Wire};
pub(crate) use pause::pause;
pub use pool::{Connections, LaneCounts, Purpose};

//! The node's own API: who asks, whether they may, and the answers. Changes no pod.

#[cfg(test)]
mod access_tests;
mod api;
pub mod auth;
mod container_logs;
mod guard;
mod healthz;
mod held;
mod listen;
mod metrics;
mod routes;
mod tls;

pub use api::{ApiListeners, KubeletApi};
pub use container_logs::ContainerLogParts;
pub use guard::Guard;
pub use healthz::Healthz;
pub use listen::ListenError;
pub use metrics::RequestMetrics;
pub use routes::EndpointParts;
pub use tls::{ApiTlsError, IdentityFiles, TlsSettings, TlsTask};

//! The node's own API: who asks, whether they may, and the answers. Changes no pod.

#[cfg(test)]
mod access_tests;
mod answers;
mod api;
pub mod auth;
mod checkpoint;
mod configz;
mod connection_use;
mod connections;
mod container_logs;
mod debug;
mod endpoints;
mod guard;
mod gzip;
mod healthz;
mod held;
mod listen;
mod metrics;
mod pages;
mod pods;
mod routes;
mod scrape;
mod slis;
pub mod stats;
pub mod streams;
pub mod system_logs;
#[cfg(test)]
mod testing;
mod tls;
pub mod zpages;

pub use api::{ApiListeners, NodeApiServer};
pub use checkpoint::Checkpoints;
pub use container_logs::ContainerLogDeps;
pub use debug::DebugHandlers;
pub use guard::Guard;
pub use healthz::Healthz;
pub use listen::ListenError;
pub use metrics::RequestMetrics;
pub use pages::NodePages;
pub use pods::PodLists;
pub use routes::EndpointDeps;
pub use scrape::Scraped;
pub use system_logs::SystemLogs;
pub use tls::{ApiTlsError, IdentityFiles, TlsSettings, TlsTask};
pub use zpages::ZPages;

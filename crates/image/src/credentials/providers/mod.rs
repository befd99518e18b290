//! Credential provider plugins (Kubernetes docs, "Configure a kubelet image credential provider"): programs that are asked for the
//! credentials of images, and whose responses are kept for as long as they say. Does not know pods.

mod cache;
mod metrics;
mod plugin;
mod plugins;
mod protocol;

pub use plugins::{ProviderFailure, ProviderPlugins};
pub use protocol::{CacheKeyType, ProviderResponse, ResponseError};

#[cfg(test)]
mod tests;

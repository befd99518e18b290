//! Registry credentials: the pods' pull Secrets, then the Docker configuration of the host, then credential providers. Decides which
//! credentials apply to an image; never shows one.

mod account;
mod docker_config;
mod keyring;
mod lookup;
mod node_files;
mod providers;
mod secrets;
mod source;

pub use account::{AccountDescription, AccountError, AccountToken, PodAccount};
pub use docker_config::{DockerConfig, DockerConfigError, Login};
pub use keyring::Keyring;
pub use lookup::RegistryCredentials;
pub use node_files::DockerConfigFiles;
pub use providers::{CacheKeyType, ProviderFailure, ProviderPlugins, ProviderResponse, ResponseError};
pub(super) use secrets::PullSecretError;
pub use secrets::{NoSecrets, PullSecret, PullSecrets};
pub use source::{LoginSource, ObjectIdentity, SourcedLogin};

#[cfg(test)]
mod tests;

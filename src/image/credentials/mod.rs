//! Registry credentials: the pods' pull Secrets, then the Docker configuration of the host. Decides which credentials apply to an
//! image; never shows one.

mod docker_config;
mod keyring;
mod location;
mod lookup;
mod node_files;
mod secrets;

pub use docker_config::{DockerConfig, DockerConfigError, Login};
pub use keyring::Keyring;
pub use lookup::Credentials;
pub use node_files::DockerConfigFiles;
pub(super) use secrets::PullSecretError;
pub use secrets::{NoSecrets, PullSecret, PullSecrets};

#[cfg(test)]
mod tests;

//! Pull Secrets (`imagePullSecrets`): their two types. Does not read them from anywhere.

use async_trait::async_trait;

use super::{DockerConfig, DockerConfigError, ObjectIdentity, PodAccount};

/// The types of pull Secrets, each with its key.
const TYPES: [(&str, &str, Format); 2] = [
    ("kubernetes.io/dockerconfigjson", ".dockerconfigjson", Format::ConfigJson),
    ("kubernetes.io/dockercfg", ".dockercfg", Format::Dockercfg),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    ConfigJson,
    Dockercfg,
}

/// A Secret with registry credentials.
#[derive(Clone)]
pub struct PullSecret {
    identity: ObjectIdentity,
    format: Format,
    data: Vec<u8>,
}

/// Why a pull Secret is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("image pull secret {name:?}: {problem}")]
pub(crate) struct PullSecretError {
    name: String,
    /// What is wrong.
    problem: DockerConfigError,
}

impl PullSecret {
    /// The Secret of this type, whose values `get` returns by key. `None` if it has no registry credentials: it is ignored, as
    /// upstream.
    pub fn new<'d>(
        identity: ObjectIdentity,
        secret_type: &str,
        get: impl Fn(&str) -> Option<&'d [u8]>,
    ) -> Option<Self> {
        let (_, key, format) = TYPES.iter().find(|(known, ..)| *known == secret_type)?;
        let data = get(key).filter(|data| !data.is_empty())?;
        Some(Self { identity, format: *format, data: data.to_owned() })
    }

    pub(super) fn identity(&self) -> &ObjectIdentity {
        &self.identity
    }

    /// Its logins.
    pub(super) fn config(&self) -> Result<DockerConfig, PullSecretError> {
        let read = match self.format {
            Format::ConfigJson => DockerConfig::from_config_json(&self.data),
            Format::Dockercfg => DockerConfig::from_dockercfg(&self.data),
        };
        read.map_err(|problem| PullSecretError { name: self.identity.name.clone(), problem })
    }
}

/// The pull Secrets of one pod.
#[async_trait]
pub trait PullSecrets: Send + Sync {
    /// The Secrets that exist, in the order of the spec. Called only if an image has to be pulled; may wait briefly.
    async fn get(&self) -> Vec<PullSecret>;

    /// The pod's service account, for credential providers that need its tokens; `None` for a pod without.
    fn account(&self) -> Option<&dyn PodAccount> {
        None
    }
}

/// For pods that name no pull Secrets.
#[derive(Clone, Copy, Debug)]
pub struct NoSecrets;

#[async_trait]
impl PullSecrets for NoSecrets {
    async fn get(&self) -> Vec<PullSecret> {
        Vec::new()
    }
}

//! Finds the credentials for a pull: those of the pod's Secrets, then the host's.

use std::sync::Arc;

use super::{DockerConfigFiles, Keyring, Login, PullSecret, PullSecretError};
use crate::sys::file_work;

/// The host's credentials. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    files: Arc<DockerConfigFiles>,
}

impl Credentials {
    /// Credentials from these files of the host.
    pub fn new(files: DockerConfigFiles) -> Self {
        Self { files: Arc::new(files) }
    }

    /// The logins to try, in this order, for a pull of the image with this fully qualified name; none means anonymously.
    pub(in crate::image) async fn of(
        &self,
        name: &str,
        secrets: &[PullSecret],
    ) -> Result<Vec<Login>, PullSecretError> {
        let mut of_pod = Keyring::default();
        for secret in secrets {
            of_pod.add(secret.config()?);
        }
        let mut logins = of_pod.lookup(name);
        let files = self.files.clone();
        let mut of_node = Keyring::default();
        // A panic is a failed read: the pull goes on without.
        of_node.add(file_work(move || files.read()).await.unwrap_or_default());
        logins.extend(of_node.lookup(name));
        Ok(logins)
    }
}

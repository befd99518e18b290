//! Finds the credentials for a pull: from the pod's Secrets, then from the host, then from credential providers.

use std::sync::Arc;

use hostlet_host::file_work;

use super::{
    DockerConfigFiles, Keyring, LoginSource, PodAccount, ProviderFailure, ProviderPlugins, PullSecret,
    PullSecretError, SourcedLogin,
};

/// The host's credentials. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RegistryCredentials {
    files: Arc<DockerConfigFiles>,
    providers: ProviderPlugins,
}

impl RegistryCredentials {
    /// Credentials from these files of the host.
    pub fn new(files: DockerConfigFiles) -> Self {
        Self { files: Arc::new(files), providers: ProviderPlugins::default() }
    }

    /// The same with these credential providers.
    pub fn with_providers(self, providers: ProviderPlugins) -> Self {
        Self { providers, ..self }
    }

    /// The credential providers of the image with this fully qualified name that failed when they were asked last.
    pub fn provider_failures(&self, name: &str) -> Vec<ProviderFailure> {
        self.providers.failures(name)
    }

    /// The logins to try, in this order, for a pull of the image with this fully qualified name; none means anonymously.
    pub(crate) async fn of(
        &self,
        name: &str,
        secrets: &[PullSecret],
        account: Option<&dyn PodAccount>,
    ) -> Result<Vec<SourcedLogin>, PullSecretError> {
        let mut of_pod = Keyring::default();
        for secret in secrets {
            of_pod.add(secret.config()?, &LoginSource::Secret(secret.identity().clone()));
        }
        let mut logins = of_pod.lookup(name);
        let files = self.files.clone();
        let mut of_node = Keyring::default();
        // A panic is a failed read: the pull goes on without.
        of_node.add(file_work(move || files.read()).await.unwrap_or_default(), &LoginSource::Node);
        logins.extend(of_node.lookup(name));
        logins.extend(self.providers.keyring(name, account).await.lookup(name));
        Ok(logins)
    }
}

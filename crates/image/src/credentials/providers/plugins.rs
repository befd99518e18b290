//! All credential providers of the node, and the logins they have for an image.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::error_chain;
use hostlet_base::settings::CredentialProviders;
use hostlet_telemetry::Metrics;

use super::super::{Keyring, PodAccount};
use super::metrics::PluginMetrics;
use super::plugin::Plugin;

/// A credential provider that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFailure {
    /// The provider as the configuration names it.
    pub provider: String,
    /// What it failed with.
    pub error: String,
}

/// The credential providers; the default has none. Cheap to clone; clones share their responses.
#[derive(Clone, Default)]
pub struct ProviderPlugins {
    plugins: Arc<[Plugin]>,
    digest: Option<String>,
    metrics: PluginMetrics,
}

impl fmt::Debug for ProviderPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.plugins.iter().map(Plugin::name)).finish()
    }
}

impl ProviderPlugins {
    /// The providers of a configuration.
    pub fn new(settings: &CredentialProviders) -> Self {
        let metrics = PluginMetrics::default();
        let plugin = |provider: &_| Plugin::new(Clone::clone(provider), &settings.bin_dir, metrics.clone());
        let plugins = settings.providers.iter().map(plugin).collect();
        Self { plugins, digest: Some(settings.digest.clone()), metrics }
    }

    /// Registers the metrics, if there are providers.
    pub fn register(&self, metrics: &Metrics) {
        if let Some(digest) = &self.digest {
            self.metrics.register(digest, metrics);
        }
    }

    /// The providers that match the image with this fully qualified name and failed when they were asked last, with their errors.
    pub fn failures(&self, image: &str) -> Vec<ProviderFailure> {
        let asked = self.plugins.iter().filter(|plugin| plugin.matches(image));
        let failure = |plugin: &Plugin| {
            Some(ProviderFailure { provider: plugin.name().to_owned(), error: plugin.failure()? })
        };
        asked.filter_map(failure).collect()
    }

    /// The logins for the image with this fully qualified name and a pod with this service account. Asks all providers that match
    /// it at the same time; one that fails is reported in the log and has none, as upstream.
    pub async fn keyring(&self, image: &str, account: Option<&dyn PodAccount>) -> Keyring {
        let asked: Vec<&Plugin> = self.plugins.iter().filter(|plugin| plugin.matches(image)).collect();
        let outcomes = join_all(asked.iter().map(|plugin| plugin.provide(image, account))).await;
        let mut keyring = Keyring::default();
        for (plugin, outcome) in asked.into_iter().zip(outcomes) {
            match outcome {
                Ok((config, source)) => {
                    plugin.set_failure(None);
                    keyring.add(config, &source);
                }
                Err(error) => {
                    let (provider, error) = (plugin.name(), error_chain(&*error));
                    tracing::warn!(
                        provider,
                        image,
                        error,
                        "cannot get registry credentials from a credential provider"
                    );
                    plugin.set_failure(Some(error));
                }
            }
        }
        keyring
    }
}

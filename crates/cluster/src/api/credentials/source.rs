//! What credentials are read from. Reads nothing itself.

use std::path::{Path, PathBuf};

use hostlet_base::WallClock;
use hostlet_net::http::ProxyEnvironment;
use hostlet_net::tls::CertificateStore;

use crate::api::kubeconfig::KubeconfigFile;

/// The sources of credentials for the API server.
#[derive(Clone, Debug)]
pub struct CredentialsSource {
    pub(super) file: KubeconfigFile,
    /// Where newer client certificates than the kubeconfig's are.
    pub(super) store: Option<CertificateStore>,
    /// Proxies if the kubeconfig has none.
    pub(super) proxies: ProxyEnvironment,
    pub(super) clock: WallClock,
}

impl CredentialsSource {
    /// The kubeconfig of the node at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self::of("kubeconfig", path)
    }

    /// The kubeconfig at `path` with credentials to request a client certificate.
    pub fn bootstrap(path: PathBuf) -> Self {
        Self::of("bootstrap-kubeconfig", path)
    }

    fn of(flag: &'static str, path: PathBuf) -> Self {
        let file = KubeconfigFile { flag, path };
        Self { file, store: None, proxies: ProxyEnvironment::default(), clock: WallClock::system() }
    }

    /// The path of the kubeconfig.
    pub(in crate::api) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Prefers newer client certificates of this store.
    pub fn with_store(mut self, store: CertificateStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Uses these proxies if the kubeconfig has none.
    pub fn with_proxies(mut self, proxies: ProxyEnvironment) -> Self {
        self.proxies = proxies;
        self
    }

    /// Uses this clock.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, clock: WallClock) -> Self {
        self.clock = clock;
        self
    }
}

//! The TLS configuration of the node's API from its files, read again when they change: certificate, key, and the authorities of clients.
//! Requests nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::api::IssuedCertificate;
use crate::sys::{Changes, Watch, file_work};
use crate::telemetry::Changed;
use crate::tls::{ClientAuthorities, ServerTls, TlsError};
use crate::types::{Rescan, error_chain, watching};

/// How often the files are read without a notification (upstream's `FileRefreshDuration`).
const REFRESH: Duration = Duration::from_secs(60);

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate with its intermediates.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// What the TLS configuration is made of.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// What the server agrees to.
    pub tls: ServerTls,
    /// The certificate, if it is in files (`tlsCertFile`, `tlsPrivateKeyFile`).
    pub identity: Option<IdentityFiles>,
    /// The authorities of clients (`authentication.x509.clientCAFile`).
    pub client_ca: Option<PathBuf>,
}

/// A certificate with its intermediates, and its key, as PEM.
#[derive(PartialEq, Eq)]
struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Identity {
    fn parts(&self) -> (&[u8], &[u8]) {
        (&self.certificate, &self.key)
    }
}

/// Why the configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ApiTlsError {
    /// A file cannot be read.
    #[error("{field}: cannot read {}", path.display())]
    Read {
        /// Its field of the configuration.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Certificate and key, or the restrictions, are unusable.
    #[error("{field} cannot be used")]
    Identity {
        /// The fields of the configuration.
        field: &'static str,
        /// Why.
        source: TlsError,
    },
    /// The file of the authorities is unusable.
    #[error("authentication.x509.clientCAFile: {} cannot be used", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TlsError,
    },
    /// Reading panicked.
    #[error("reading the files of the node's API ended early")]
    Work(#[from] JoinError),
}

/// What the files contain.
#[derive(PartialEq, Eq)]
struct Files {
    identity: Option<Identity>,
    client_ca: Option<Vec<u8>>,
}

impl TlsSettings {
    /// Reads the files. Blocks.
    fn read(&self) -> Result<Files, ApiTlsError> {
        let read = |field, path: &Path| {
            fs::read(path).map_err(|source| ApiTlsError::Read { field, path: path.to_owned(), source })
        };
        let identity = self.identity.as_ref().map(|files| {
            let certificate = read("tlsCertFile", &files.certificate)?;
            Ok::<_, ApiTlsError>(Identity { certificate, key: read("tlsPrivateKeyFile", &files.key)? })
        });
        let client_ca = self.client_ca.as_deref();
        let client_ca = client_ca.map(|path| read("authentication.x509.clientCAFile", path));
        Ok(Files { identity: identity.transpose()?, client_ca: client_ca.transpose()? })
    }

    fn authorities(&self, files: &Files) -> Result<Option<Arc<ClientAuthorities>>, ApiTlsError> {
        let (Some(path), Some(text)) = (&self.client_ca, &files.client_ca) else { return Ok(None) };
        let authorities = ClientAuthorities::from_pem(text);
        let authorities =
            authorities.map_err(|source| ApiTlsError::ClientCa { path: path.clone(), source })?;
        Ok(Some(Arc::new(authorities)))
    }

    fn config(
        &self,
        identity: Option<(&[u8], &[u8])>,
        authorities: Option<&ClientAuthorities>,
    ) -> Result<Arc<ServerConfig>, ApiTlsError> {
        let config = self.tls.config(identity, authorities).map_err(|source| {
            let field = match &source {
                TlsError::Restricted(_) => "tlsCipherSuites, tlsMinVersion, tlsCurvePreferences",
                _ => "tlsCertFile, tlsPrivateKeyFile",
            };
            ApiTlsError::Identity { field, source }
        })?;
        Ok(Arc::new(config))
    }
}

/// Keeps the configuration current; run by the app.
pub struct TlsTask {
    settings: TlsSettings,
    files: Files,
    /// The certificate of the cluster, which counts instead of that in files.
    issued: watch::Receiver<IssuedCertificate>,
    /// The one that the configuration has.
    served: IssuedCertificate,
    config: watch::Sender<Arc<ServerConfig>>,
    authorities: watch::Sender<Option<Arc<ClientAuthorities>>>,
    rescan: Rescan,
}

impl TlsTask {
    /// Reads the files for the first time. `issued`: the certificate of the cluster, which counts instead of that in files. Blocks.
    ///
    /// # Errors
    /// A file is missing or unusable, which a person should see at once.
    pub fn new(
        settings: TlsSettings,
        issued: watch::Receiver<IssuedCertificate>,
    ) -> Result<Self, ApiTlsError> {
        let files = settings.read()?;
        let authorities = settings.authorities(&files)?;
        let config = settings.config(files.identity.as_ref().map(Identity::parts), authorities.as_deref())?;
        let (config, authorities) = (watch::Sender::new(config), watch::Sender::new(authorities));
        Ok(Self { settings, files, issued, served: None, config, authorities, rescan: Rescan::default() })
    }

    /// The same, which also reads the files on request.
    #[must_use]
    pub fn with_rescan(self, rescan: Rescan) -> Self {
        Self { rescan, ..self }
    }

    /// The current configuration.
    pub fn config(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.config.subscribe()
    }

    /// The current authorities of clients.
    pub fn authorities(&self) -> watch::Receiver<Option<Arc<ClientAuthorities>>> {
        self.authorities.subscribe()
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut trouble = Changed::new();
        let changed = Arc::new(Changes::default());
        let mut watches = Some(self.watches(&changed));
        loop {
            let current = self.update(&mut watches).await;
            match current {
                Ok(()) => trouble = Changed::new(),
                Err(error) => {
                    let error = error_chain(&error);
                    if trouble.see(error.clone()) {
                        tracing::warn!(error, "the node's API keeps its certificate and authorities");
                    }
                }
            }
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe, all: they take nothing but a mark that something changed, and everything is read.
                () = changed.next() => {}
                () = watching::changed(&mut self.issued) => {}
                () = self.rescan.requested() => {}
                () = sleep(REFRESH), if watches.as_ref().is_none_or(|watches| !watches.is_empty()) => {}
            }
        }
    }

    fn watches(&self, changed: &Arc<Changes>) -> Vec<Watch> {
        let identity = self.settings.identity.iter().flat_map(|files| [&files.certificate, &files.key]);
        let paths = identity.chain(&self.settings.client_ca);
        paths.map(|path| Watch::new(path, "certificates", changed.clone())).collect()
    }

    /// Makes the configuration of what there is now.
    async fn update(&mut self, watches: &mut Option<Vec<Watch>>) -> Result<(), ApiTlsError> {
        let (settings, mut renewed) = (self.settings.clone(), watches.take().unwrap_or_default());
        let (read, renewed) = file_work(move || {
            renewed.iter_mut().for_each(Watch::renew);
            (settings.read(), renewed)
        })
        .await?;
        *watches = Some(renewed);
        let files = read?;
        let issued = self.issued.borrow_and_update().clone();
        if files == self.files && issued == self.served {
            return Ok(());
        }
        let authorities = match files.client_ca == self.files.client_ca {
            true => self.authorities.borrow().clone(),
            false => self.settings.authorities(&files)?,
        };
        let identity = issued
            .as_deref()
            .map(|text| (&text[..], &text[..]))
            .or_else(|| files.identity.as_ref().map(Identity::parts));
        let config = self.settings.config(identity, authorities.as_deref())?;
        (self.files, self.served) = (files, issued);
        self.config.send_replace(config);
        self.authorities.send_replace(authorities);
        tracing::info!("the node's API has a new certificate or new authorities of clients");
        Ok(())
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;

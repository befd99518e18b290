//! The TLS configuration of the node's API from its files, read again when they change: certificate, key, and the authorities of clients.
//! Requests nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use hostlet_base::{Rescan, error_chain, watching};
use hostlet_cluster::api::IssuedCertificate;
use hostlet_host::{Changes, Watch, file_work};
use hostlet_net::tls::{ClientAuthorities, ServerTls, TlsError};
use hostlet_telemetry::Changed;

/// How often the files are read without a notification (upstream's `FileRefreshDuration`).
const REFRESH: Duration = Duration::from_secs(60);

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate with its intermediates.
    pub certificate: PathBuf,
    /// File of the private key, as PEM.
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
#[derive(Clone, PartialEq, Eq)]
struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
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
}

/// What the files contain, or why one cannot be read.
struct Files {
    identity: Result<Option<Identity>, ApiTlsError>,
    client_ca: Result<Option<Vec<u8>>, ApiTlsError>,
}

impl TlsSettings {
    /// Reads the files. Blocks.
    fn read(&self) -> Files {
        let read = |field, path: &Path| {
            fs::read(path).map_err(|source| ApiTlsError::Read { field, path: path.to_owned(), source })
        };
        let identity = self.identity.as_ref().map(|files| {
            let certificate = read("tlsCertFile", &files.certificate)?;
            Ok(Identity { certificate, key: read("tlsPrivateKeyFile", &files.key)? })
        });
        let client_ca = self.client_ca.as_deref();
        let client_ca = client_ca.map(|path| read("authentication.x509.clientCAFile", path));
        Files { identity: identity.transpose(), client_ca: client_ca.transpose() }
    }

    fn authorities(&self, client_ca: Option<&[u8]>) -> Result<Option<Arc<ClientAuthorities>>, ApiTlsError> {
        let (Some(path), Some(text)) = (&self.client_ca, client_ca) else { return Ok(None) };
        let authorities = ClientAuthorities::from_pem(text);
        let authorities =
            authorities.map_err(|source| ApiTlsError::ClientCa { path: path.clone(), source })?;
        Ok(Some(Arc::new(authorities)))
    }

    /// `issued` counts instead of the certificate in files.
    fn config(
        &self,
        issued: &IssuedCertificate,
        identity: Option<&Identity>,
        authorities: Option<&ClientAuthorities>,
    ) -> Result<Arc<ServerConfig>, ApiTlsError> {
        let issued = issued.as_deref().map(|text| (&text[..], &text[..]));
        let identity = issued.or(identity.map(|identity| (&identity.certificate[..], &identity.key[..])));
        let config = self.tls.config(identity, authorities).map_err(|source| {
            let field = if matches!(source, TlsError::Restricted(_)) {
                "tlsCipherSuites, tlsMinVersion, tlsCurvePreferences"
            } else {
                "tlsCertFile, tlsPrivateKeyFile"
            };
            ApiTlsError::Identity { field, source }
        })?;
        Ok(Arc::new(config))
    }
}

/// Keeps the configuration current; run by the app. The certificate and the authorities of clients are taken each on their own, so that a
/// broken file does not hold up the other.
pub struct TlsTask {
    settings: TlsSettings,
    /// The certificate of the cluster.
    issued: watch::Receiver<IssuedCertificate>,
    /// What the configuration is made of.
    served: Served,
    config: watch::Sender<Arc<ServerConfig>>,
    authorities: watch::Sender<Option<Arc<ClientAuthorities>>>,
}

struct Served {
    issued: IssuedCertificate,
    identity: Option<Identity>,
    client_ca: Option<Vec<u8>>,
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
        let Files { identity, client_ca } = settings.read();
        let served = Served { issued: None, identity: identity?, client_ca: client_ca? };
        let authorities = settings.authorities(served.client_ca.as_deref())?;
        let config = settings.config(&served.issued, served.identity.as_ref(), authorities.as_deref())?;
        let (config, authorities) = (watch::Sender::new(config), watch::Sender::new(authorities));
        Ok(Self { settings, issued, served, config, authorities })
    }

    /// The current configuration.
    pub fn config(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.config.subscribe()
    }

    /// The current authorities of clients.
    pub fn authorities(&self) -> watch::Receiver<Option<Arc<ClientAuthorities>>> {
        self.authorities.subscribe()
    }

    /// Runs until cancelled. Also reads the files at each `rescan`.
    pub async fn run(mut self, mut rescan: Rescan, cancel: CancellationToken) {
        let (mut identity_trouble, mut authorities_trouble) = (Changed::new(), Changed::new());
        let changed = Arc::new(Changes::default());
        let mut watches = self.watches(&changed);
        let has_files = !watches.is_empty();
        loop {
            let settings = self.settings.clone();
            let read = file_work(move || {
                watches.iter_mut().for_each(Watch::renew);
                (settings.read(), watches)
            });
            match read.await {
                Ok((files, renewed)) => {
                    watches = renewed;
                    report(&mut identity_trouble, self.take_identity(files.identity), "certificate");
                    let taken = self.take_authorities(files.client_ca);
                    report(&mut authorities_trouble, taken, "authorities of clients");
                }
                Err(error) => {
                    // They are still read periodically.
                    watches = Vec::new();
                    let error = error_chain(&error);
                    tracing::error!(error, "reading the files of the node's API ended early");
                }
            }
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe, all: they take nothing but a mark that something changed, and everything is read.
                () = changed.next() => {}
                () = watching::changed(&mut self.issued) => {}
                () = rescan.requested() => {}
                () = sleep(REFRESH), if has_files => {}
            }
        }
    }

    fn watches(&self, changed: &Arc<Changes>) -> Vec<Watch> {
        let identity = self.settings.identity.iter().flat_map(|files| [&files.certificate, &files.key]);
        let paths = identity.chain(&self.settings.client_ca);
        paths.map(|path| Watch::new(path, "certificates", changed.clone())).collect()
    }

    /// Takes the certificate of the cluster and that in files; returns whether one of them is new.
    fn take_identity(&mut self, read: Result<Option<Identity>, ApiTlsError>) -> Result<bool, ApiTlsError> {
        let issued = self.issued.borrow_and_update().clone();
        let identity = match (read, &issued) {
            (Ok(identity), _) => identity,
            // It is not used.
            (Err(_), Some(_)) => self.served.identity.clone(),
            (Err(error), None) => return Err(error),
        };
        if identity == self.served.identity && issued == self.served.issued {
            return Ok(false);
        }
        let authorities = self.authorities.borrow().clone();
        let config = self.settings.config(&issued, identity.as_ref(), authorities.as_deref())?;
        (self.served.issued, self.served.identity) = (issued, identity);
        self.config.send_replace(config);
        Ok(true)
    }

    /// Takes the authorities of clients; returns whether they are new.
    fn take_authorities(&mut self, read: Result<Option<Vec<u8>>, ApiTlsError>) -> Result<bool, ApiTlsError> {
        let client_ca = read?;
        if client_ca == self.served.client_ca {
            return Ok(false);
        }
        let authorities = self.settings.authorities(client_ca.as_deref())?;
        let Served { issued, identity, .. } = &self.served;
        let config = self.settings.config(issued, identity.as_ref(), authorities.as_deref())?;
        self.served.client_ca = client_ca;
        self.config.send_replace(config);
        self.authorities.send_replace(authorities);
        Ok(true)
    }
}

/// Logs what became of a part of the configuration; the same trouble once.
fn report(trouble: &mut Changed<String>, taken: Result<bool, ApiTlsError>, part: &str) {
    match taken {
        Ok(is_new) => {
            *trouble = Changed::new();
            if is_new {
                tracing::info!("the node's API has a new {part}");
            }
        }
        Err(error) => {
            let error = error_chain(&error);
            if trouble.see(error.clone()) {
                tracing::warn!(error, "the node's API keeps its {part}");
            }
        }
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;

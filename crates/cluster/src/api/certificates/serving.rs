//! The task that gets the certificate of the node's API from the cluster (`serverTLSBootstrap`), and renews it before it expires and when
//! the node's addresses change. It retries for ever; what it does is planned in `serving_plan`.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, WallClock, error_chain, sleep_until, watching};
use hostlet_host::file_work;
use hostlet_net::tls::{AlternativeNames, CertificateInfo, CertificateStore, PrivateKey, TlsError};
use hostlet_telemetry::Changed;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::metrics::ServingMetrics;
use super::pace::{JITTER, LONGEST_SLEEP, PAUSES};
use super::request::{Purpose, RequestError, obtain};
use super::serving_plan::{ServingStep, names_of, plan};
use super::signer_time::SignerTime;

/// Settings of the certificate of the node's API.
#[derive(Clone, Debug)]
pub struct ServingSettings {
    /// The node's name.
    pub node: String,
    /// Where certificates are stored.
    pub store: CertificateStore,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// The current certificate with its key, as PEM.
pub type IssuedCertificate = Option<Arc<Vec<u8>>>;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot store the certificate")]
    Store(#[from] TlsError),
    #[error("the work on its files ended early")]
    Work(#[from] JoinError),
}

/// The task; run by the app.
pub struct ServingCertificateTask {
    settings: ServingSettings,
    client: Client,
    node: watch::Receiver<Option<Arc<Node>>>,
    issued: watch::Sender<IssuedCertificate>,
    metrics: ServingMetrics,
    chance: StdRng,
    signer: SignerTime,
}

/// A certificate, and the random number of its renewal.
struct Current {
    info: CertificateInfo,
    draw: f64,
}

impl ServingCertificateTask {
    /// A task that requests certificates with `client` for the addresses of `node`, and publishes the current one in `issued`.
    pub fn new(
        settings: ServingSettings,
        client: Client,
        node: watch::Receiver<Option<Arc<Node>>>,
        issued: watch::Sender<IssuedCertificate>,
        metrics: ServingMetrics,
        chance: StdRng,
    ) -> Self {
        Self { settings, client, node, issued, metrics, chance, signer: SignerTime::default() }
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: files are replaced atomically, and an open request is left to the API server's garbage collection.
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        let mut current = self.stored().await;
        let (mut failures, mut trouble) = (None, Changed::new());
        loop {
            let names = self.names();
            let (info, draw) =
                current.as_ref().map_or((None, 0.0), |current| (Some(&current.info), current.draw));
            let clock = &self.settings.clock;
            let now = self.signer.now(info, clock.now(), clock.steady());
            match plan(info, &names, draw, now) {
                ServingStep::Wait(until) => self.wait(until, now).await,
                ServingStep::Request(names) => {
                    // Addresses that change meanwhile need another request.
                    let mut node = self.node.clone();
                    let attempt = tokio::select! {
                        biased;
                        // Cancel-safe: as `run` says.
                        attempt = self.request(&names) => attempt,
                        // Cancel-safe: only reads a watch.
                        () = watching::becomes(&mut node, |node| names_in(node.as_deref()) != names) => continue,
                    };
                    match attempt {
                        Ok(new) => {
                            tracing::info!(until = %new.not_after, "obtained a certificate for the node's API");
                            if let Some(old) = &current {
                                self.metrics.rotated(now.duration_since(old.info.not_before));
                            }
                            let clock = &self.settings.clock;
                            self.signer.received(&new, clock.now(), clock.steady());
                            current = Some(Current { info: new, draw: self.chance.random() });
                            (failures, trouble) = (None, Changed::new());
                        }
                        Err(error) => {
                            self.metrics.failed();
                            failed(&error, &mut trouble);
                            let pause = self.pause(&mut failures);
                            sleep(pause).await;
                        }
                    }
                }
            }
        }
    }

    /// The certificate of an earlier run, which is published.
    async fn stored(&mut self) -> Option<Current> {
        let store = self.settings.store.clone();
        let read = file_work(move || {
            let Some(text) = store.current()? else { return Ok(None) };
            let info = CertificateInfo::from_pem(&text)?;
            info.check_key(&PrivateKey::from_pem(&text)?)?;
            Ok(Some((info, text)))
        });
        let read = read.await.map_err(AttemptError::Work);
        match read.and_then(|read: Result<_, TlsError>| Ok(read?)) {
            Ok(Some((info, text))) => {
                self.publish(&info, text);
                Some(Current { info, draw: self.chance.random() })
            }
            Ok(None) => None,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(
                    error,
                    "the stored certificate of the node's API cannot be used; requesting another one"
                );
                None
            }
        }
    }

    fn names(&mut self) -> AlternativeNames {
        names_in(self.node.borrow_and_update().as_deref())
    }

    /// Waits for other addresses, or until then, but not for long: the clock may be set.
    async fn wait(&mut self, until: Option<Timestamp>, now: Timestamp) {
        let left = until.map(|until| until.duration_since(now).max(SignedDuration::ZERO).unsigned_abs());
        let due = left.map(|left| Instant::now() + left.min(LONGEST_SLEEP));
        tokio::select! {
            // Cancel-safe: a sleep.
            () = sleep_until(due) => {}
            // Cancel-safe: a watch marks its value seen only when `changed` returns.
            () = watching::changed(&mut self.node) => {}
        }
    }

    /// Requests, stores and publishes a certificate for these names.
    async fn request(&self, names: &AlternativeNames) -> Result<CertificateInfo, AttemptError> {
        let key = PrivateKey::generate()?;
        let purpose = Purpose::Serving(names.clone());
        let waiting = |name: &str| {
            tracing::info!(
                name,
                "the certificate of the node's API waits to be approved; if nothing approves it automatically: \
                 kubectl certificate approve {name}"
            );
        };
        let certificate = obtain(&self.client, &key, &self.settings.node, &purpose, waiting).await?;
        let info = CertificateInfo::from_pem(certificate.as_bytes())?;
        let (store, now) = (self.settings.store.clone(), self.settings.clock.now());
        let now = now.to_zoned(TimeZone::system());
        let stored = file_work(move || {
            let path = store.update(&certificate, &key, &now)?;
            tracing::debug!(path = %path.display(), "stored the certificate of the node's API");
            Ok::<_, TlsError>(format!("{certificate}\n{}", key.pem()))
        });
        let text = stored.await??;
        self.publish(&info, text.into_bytes());
        Ok(info)
    }

    fn publish(&self, info: &CertificateInfo, text: Vec<u8>) {
        self.metrics.expires(info.not_after);
        self.issued.send_replace(Some(Arc::new(text)));
    }

    /// The pause after another failure.
    fn pause(&mut self, failures: &mut Option<Backoff<Instant>>) -> Duration {
        let now = Instant::now();
        let next = Backoff::next(*failures, &PAUSES, now, now);
        *failures = Some(next);
        next.delay.mul_f64(1.0 + JITTER * self.chance.random::<f64>())
    }
}

fn names_in(node: Option<&Node>) -> AlternativeNames {
    node.map(names_of).unwrap_or_default()
}

fn failed(error: &AttemptError, trouble: &mut Changed<String>) {
    let text = error_chain(error);
    if !trouble.see(text.clone()) {
        return;
    }
    match error {
        AttemptError::Request(request) if request.is_away() => {
            tracing::info!(error = text, "cannot request a certificate for the node's API yet; retrying");
        }
        AttemptError::Request(_) | AttemptError::Store(_) | AttemptError::Work(_) => {
            tracing::warn!(error = text, "cannot get a certificate for the node's API; retrying");
        }
    }
}

#[cfg(test)]
#[path = "serving_tests.rs"]
mod tests;

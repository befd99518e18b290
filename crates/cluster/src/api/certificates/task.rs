//! The task that gets client certificates: by bootstrap if there are no usable credentials, and by renewal. It retries for ever;
//! what it does is planned in `plan`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, WallClock, error_chain, sleep_until, watching};
use hostlet_host::file_work;
use hostlet_net::tls::{CertificateInfo, CertificateStore, PrivateKey, TlsError};
use hostlet_telemetry::{Changed, Metrics, PlainCounter};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::kubeconfig::{self, KubeconfigError};
use super::pace::{JITTER, LONGEST_SLEEP, PAUSES};
use super::plan::{Cause, LoginState, Observed, REVOKED_AFTER, Step, plan, renewal};
use super::report::CertificateReport;
use super::request::{Purpose, RequestError, obtain};
use super::signer_time::SignerTime;
use crate::api::connect::ConnectError;
use crate::api::credentials::Access;
use crate::api::{Credentials, CredentialsSource};

/// How often a step in progress is planned again: another one may be necessary, or possible.
const REPLAN: Duration = Duration::from_secs(10);

/// Creates a client with these credentials.
type Connect = Box<dyn Fn(Credentials) -> Result<Client, ConnectError> + Send + Sync>;

/// Settings of client certificates.
#[derive(Clone, Debug)]
pub struct CertificateSettings {
    /// The node's name.
    pub node: String,
    /// The kubeconfig that a bootstrap writes.
    pub kubeconfig: PathBuf,
    /// The credentials of the kubeconfig for a bootstrap, which need not exist.
    pub bootstrap: Option<CredentialsSource>,
    /// Whether certificates are renewed.
    pub rotates: bool,
    /// Where they are stored.
    pub store: CertificateStore,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot store the certificate")]
    Store(#[from] TlsError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the work on its files ended early")]
    Work(#[from] JoinError),
    #[error("its credentials ended early")]
    Credentials,
    #[error("the new certificate is stored, but the credentials of this node cannot be used")]
    Unused,
}

/// The task; run by the app.
pub struct ClientCertificateTask {
    settings: CertificateSettings,
    credentials: Credentials,
    /// For renewals.
    client: Client,
    connect: Connect,
    report: watch::Sender<Option<CertificateReport>>,
    chance: Mutex<StdRng>,
    failures: PlainCounter,
}

impl ClientCertificateTask {
    /// A task that renews the certificate of `credentials` with `client`, and bootstraps with clients of `connect`. Publishes
    /// its state.
    pub fn new(
        settings: CertificateSettings,
        credentials: Credentials,
        client: Client,
        connect: impl Fn(Credentials) -> Result<Client, ConnectError> + Send + Sync + 'static,
        chance: StdRng,
    ) -> (Self, watch::Receiver<Option<CertificateReport>>) {
        let (report, shown) = watch::channel(None);
        let (connect, chance) = (Box::new(connect), Mutex::new(chance));
        let failures = PlainCounter::default();
        (Self { settings, credentials, client, connect, report, chance, failures }, shown)
    }

    /// Adds its metric.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_certificate_manager_client_expiration_renew_errors",
            "Counter of certificate renewal errors",
            self.failures.clone(),
        );
    }

    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: a bootstrap's request is found again, and files are replaced atomically.
            () = self.work() => {}
        }
    }

    async fn work(&self) {
        let mut failures = None;
        let (mut announced, mut trouble) = (Changed::new(), Changed::new());
        let mut state = State {
            access: self.credentials.access(),
            rejected: self.credentials.rejected_since(),
            draw: None,
            signer: SignerTime::default(),
        };
        loop {
            let (_, step) = self.observe(&mut state).await;
            let requested = match step {
                Step::Wait(until) => {
                    self.wait(&mut state, until).await;
                    continue;
                }
                Step::Bootstrap(cause) => {
                    if announced.see(Some(cause)) {
                        tracing::info!(
                            "requesting a client certificate with the bootstrap kubeconfig: {}",
                            reason(cause)
                        );
                    }
                    self.unless_replanned(step, &mut state, self.bootstrap()).await
                }
                Step::Renew => {
                    tracing::debug!("renewing the client certificate");
                    self.unless_replanned(step, &mut state, self.renew()).await
                }
            };
            match requested {
                // Another step is due.
                None => {}
                Some(Ok(certificate)) if self.reload(&certificate).await => {
                    failures = None;
                    (announced, trouble) = (Changed::new(), Changed::new());
                    state.received(&certificate, &self.settings.clock);
                    tracing::info!(until = %certificate.not_after, "obtained a client certificate");
                    self.note(|report| (report.waits_for, report.problem) = (None, None));
                }
                Some(Ok(_)) => {
                    self.failed(&AttemptError::Unused, &mut trouble);
                    self.pause_unless_replanned(step, &mut state, &mut failures).await;
                }
                Some(Err(error)) => {
                    self.failed(&error, &mut trouble);
                    self.pause_unless_replanned(step, &mut state, &mut failures).await;
                }
            }
        }
    }

    /// The current state and the step that it requires. Publishes the state.
    async fn observe(&self, state: &mut State) -> (Observed, Step) {
        let login = match &*state.access.borrow_and_update() {
            Access::Pending => LoginState::Unknown,
            Access::Failed { are_none: true, .. } => LoginState::Missing,
            Access::Failed { are_none: false, .. } => LoginState::Unknown,
            Access::Ready(ready) => match &ready.login.certificate {
                Some(certificate) => LoginState::Certificate(certificate.clone()),
                None => LoginState::Other,
            },
        };
        let rejected_for = state.rejected.borrow_and_update().map(|since| since.elapsed());
        let bootstrap = self.settings.bootstrap.clone();
        let can_bootstrap = file_work(move || bootstrap.is_some_and(|source| source.path().exists())).await;
        let observed = Observed { login, rejected_for, can_bootstrap: can_bootstrap.unwrap_or_default() };
        let draw = match &observed.login {
            LoginState::Certificate(certificate) => state.draw(certificate, &mut self.chance.lock()),
            LoginState::Unknown | LoginState::Missing | LoginState::Other => 0.0,
        };
        let step = plan(&observed, self.settings.rotates, draw, state.now(&self.settings.clock));
        self.show(&observed, draw);
        (observed, step)
    }

    /// Waits for a change of the state, or until then, but not for long.
    async fn wait(&self, state: &mut State, until: Option<Timestamp>) {
        let now = state.now(&self.settings.clock);
        let left = until.map(|until| until.duration_since(now).max(SignedDuration::ZERO).unsigned_abs());
        let due = left.map(|left| Instant::now() + left.min(LONGEST_SLEEP));
        let rejected = state.rejected.borrow().map(|since| since + REVOKED_AFTER);
        let moments = due.into_iter().chain(rejected.filter(|at| *at > Instant::now()));
        tokio::select! {
            // Cancel-safe: a sleep.
            () = sleep_until(moments.min()) => {}
            // Cancel-safe, both: a watch marks its value seen only when `changed` returns.
            () = watching::changed(&mut state.access) => {}
            () = watching::changed(&mut state.rejected) => {}
        }
    }

    /// Does `work` unless another step than `step` is due.
    async fn unless_replanned<T>(
        &self,
        step: Step,
        state: &mut State,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            // Cancel-safe: as `run` says.
            done = work => Some(done),
            // Cancel-safe: only reads.
            () = self.replanned(step, state) => None,
        }
    }

    /// Waits until another step than `step` is due.
    async fn replanned(&self, step: Step, state: &mut State) {
        loop {
            self.wait(state, Some(state.now(&self.settings.clock) + REPLAN)).await;
            let (observed, planned) = self.observe(state).await;
            match (step, planned) {
                (Step::Bootstrap(_), Step::Bootstrap(_)) | (Step::Renew, Step::Renew) => {}
                // The credentials are being read.
                _ if observed.login == LoginState::Unknown => {}
                _ => return,
            }
        }
    }

    /// Requests a certificate with the bootstrap kubeconfig and writes the node's kubeconfig.
    async fn bootstrap(&self) -> Result<CertificateInfo, AttemptError> {
        let settings = self.settings.clone();
        let source = settings.bootstrap.ok_or(AttemptError::Credentials)?;
        let path = source.path().to_owned();
        let store = settings.store.clone();
        let key = Arc::new(file_work(move || store.pending_key()).await??);
        let (keeping, credentials) = Credentials::new(source);
        let client = (self.connect)(credentials)?;
        let certificate = tokio::select! {
            // Cancel-safe: the request is found again.
            certificate = self.request(&client, &key, Purpose::Bootstrap) => certificate,
            // Cancel-safe: only reads files.
            () = keeping.run(CancellationToken::new()) => return Err(AttemptError::Credentials),
        };
        if certificate.as_ref().is_err_and(RequestError::is_final) {
            let store = settings.store.clone();
            file_work(move || store.discard_pending_key()).await??;
        }
        let certificate = certificate?;
        let info = CertificateInfo::from_pem(certificate.as_bytes())?;
        let (store, now) = (settings.store, self.settings.clock.now().to_zoned(TimeZone::system()));
        file_work(move || {
            store.update(&certificate, &key, &now)?;
            kubeconfig::write(&settings.kubeconfig, &path, &store.current_path())?;
            // Last, so that an interrupted bootstrap finds its request again.
            store.discard_pending_key().map_err(AttemptError::Store)
        })
        .await??;
        Ok(info)
    }

    /// Requests another certificate with the current one.
    async fn renew(&self) -> Result<CertificateInfo, AttemptError> {
        let key = PrivateKey::generate()?;
        let certificate = self.request(&self.client, &key, Purpose::Renewal).await?;
        let info = CertificateInfo::from_pem(certificate.as_bytes())?;
        let (store, now) = (self.settings.store.clone(), self.settings.clock.now());
        let now = now.to_zoned(TimeZone::system());
        file_work(move || store.update(&certificate, &key, &now)).await??;
        Ok(info)
    }

    async fn request(
        &self,
        client: &Client,
        key: &PrivateKey,
        purpose: Purpose,
    ) -> Result<String, RequestError> {
        let waiting = |name: &str| {
            tracing::info!(name, "waiting until the certificate signing request is approved and signed");
            let name = Some(name.to_owned());
            self.note(|report| (report.waits_for, report.problem) = (name, None));
        };
        obtain(client, key, &self.settings.node, &purpose, waiting).await
    }

    /// Has the credentials read again. Returns whether they are the new ones within a limited time.
    async fn reload(&self, certificate: &CertificateInfo) -> bool {
        let mut access = self.credentials.access();
        self.credentials.reload();
        let is_new = |access: &Access| match access {
            Access::Ready(ready) => ready.login.certificate.as_ref() == Some(certificate),
            Access::Pending | Access::Failed { .. } => false,
        };
        tokio::select! {
            // Cancel-safe: only reads a watch.
            () = watching::becomes(&mut access, is_new) => true,
            // Cancel-safe: a sleep.
            () = sleep(REPLAN) => false,
        }
    }

    fn failed(&self, error: &AttemptError, trouble: &mut Changed<String>) {
        self.failures.inc();
        let text = error_chain(error);
        if trouble.see(text.clone()) {
            match error {
                AttemptError::Request(request) if request.is_away() => {
                    tracing::info!(error = text, "cannot request a client certificate yet; retrying");
                }
                AttemptError::Request(_)
                | AttemptError::Store(_)
                | AttemptError::Kubeconfig(_)
                | AttemptError::Connect(_)
                | AttemptError::Work(_)
                | AttemptError::Credentials
                | AttemptError::Unused => {
                    tracing::warn!(error = text, "cannot get a client certificate; retrying");
                }
            }
        }
        self.note(|report| (report.waits_for, report.problem) = (None, Some(text)));
    }

    /// Waits after another failure.
    async fn pause_unless_replanned(
        &self,
        step: Step,
        state: &mut State,
        failures: &mut Option<Backoff<Instant>>,
    ) {
        let pause = self.pause(failures);
        tokio::select! {
            // Cancel-safe: a sleep.
            () = sleep(pause) => {}
            // Cancel-safe: only reads.
            () = self.replanned(step, state) => {}
        }
    }

    /// The pause after another failure.
    fn pause(&self, failures: &mut Option<Backoff<Instant>>) -> Duration {
        let now = Instant::now();
        let next = Backoff::next(*failures, &PAUSES, now, now);
        *failures = Some(next);
        next.delay.mul_f64(1.0 + JITTER * self.chance.lock().random::<f64>())
    }

    /// Publishes the state of the credentials. Without a bootstrap kubeconfig, other ones than certificates have no state.
    fn show(&self, observed: &Observed, draw: f64) {
        let (expires, renewed) = match &observed.login {
            LoginState::Certificate(certificate) => {
                let renewed = self.settings.rotates.then(|| renewal(certificate, draw));
                (Some(certificate.not_after), renewed)
            }
            LoginState::Missing if self.settings.bootstrap.is_some() => (None, None),
            LoginState::Missing | LoginState::Other | LoginState::Unknown => {
                self.report.send_if_modified(|report| report.take().is_some());
                return;
            }
        };
        let is_rejected = observed.rejected_for.is_some_and(|rejected| rejected >= REVOKED_AFTER);
        let missing = self.settings.bootstrap.as_ref().filter(|_| !observed.can_bootstrap);
        let missing = missing.filter(|_| observed.login == LoginState::Missing);
        self.note(|report| {
            (report.expires, report.renewed, report.is_rejected) = (expires, renewed, is_rejected);
            if let Some(source) = missing {
                let path = source.path().display();
                report.problem = Some(format!("--bootstrap-kubeconfig {path}: the file does not exist"));
            }
        });
    }

    fn note(&self, change: impl FnOnce(&mut CertificateReport)) {
        self.report.send_if_modified(|report| {
            let mut new = report.clone().unwrap_or_default();
            change(&mut new);
            let is_news = report.as_ref() != Some(&new);
            *report = Some(new);
            is_news
        });
    }
}

/// What the task has seen.
struct State {
    access: watch::Receiver<Access>,
    rejected: watch::Receiver<Option<Instant>>,
    /// The random number of the current certificate.
    draw: Option<(CertificateInfo, f64)>,
    signer: SignerTime,
}

impl State {
    /// The node has a new certificate.
    fn received(&mut self, certificate: &CertificateInfo, clock: &WallClock) {
        self.signer.received(certificate, clock.now(), clock.steady());
    }

    /// The time by which steps are planned.
    fn now(&self, clock: &WallClock) -> Timestamp {
        let current = self.draw.as_ref().map(|(certificate, _)| certificate);
        self.signer.now(current, clock.now(), clock.steady())
    }

    fn draw(&mut self, certificate: &CertificateInfo, chance: &mut StdRng) -> f64 {
        match &self.draw {
            Some((of, draw)) if of == certificate => *draw,
            Some(_) | None => {
                let draw = chance.random();
                self.draw = Some((certificate.clone(), draw));
                draw
            }
        }
    }
}

fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::Missing => "this node has no usable kubeconfig",
        Cause::Expired => "the client certificate is expired",
        Cause::Rejected => "the API server rejects the client certificate",
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;

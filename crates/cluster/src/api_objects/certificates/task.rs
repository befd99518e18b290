//! Requests one certificate and renews it for as long as somebody uses it. What to do next is the lifecycle's; here it is done.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::watching::publish;
use hostlet_base::{Backoff, BackoffPolicy, sleep_until};
use hostlet_pod::objects::{CertificateError, CertificateRef, CertificateState};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::count::CountedCertificate;
use super::issuing::Issuing;
use super::request::{create, decision};
use super::state::{Decision, Lifecycle, Step};
use crate::api::pause;
use crate::api_objects::read::object_error;

/// Pause before a request that could not be created, or was deleted, is created again.
const PAUSE: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(300),
};

/// How long a request is undecided before that is why the pod waits. Shorter than what receivers wait for the first state.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests a certificate and renews it until `known` has no receivers.
pub(in crate::api_objects) async fn follow_certificate(
    issuing: Arc<Issuing>,
    client: Client,
    certificate: CertificateRef,
    known: Arc<watch::Sender<CertificateState>>,
) {
    let counted = issuing.counts.add(&certificate.signer);
    let follower =
        Follower { issuing: &issuing, client: &client, certificate: &certificate, known: &known, counted };
    tokio::select! {
        // Cancel-safe: only waits.
        () = known.closed() => {}
        // Cancel-safe: a request whose key is lost is removed by the API server.
        never = follower.run() => match never {},
    }
}

struct Follower<'a> {
    issuing: &'a Issuing,
    client: &'a Client,
    certificate: &'a CertificateRef,
    known: &'a watch::Sender<CertificateState>,
    counted: CountedCertificate,
}

impl Follower<'_> {
    async fn run(self) -> Infallible {
        let mut backoff = None;
        let mut life = Lifecycle::Initial;
        loop {
            self.report(&mut life);
            life = match life.step(self.now()) {
                Step::Request => self.request(life, &mut backoff).await,
                Step::Await(name) => self.wait(life, &name, &mut backoff).await,
                Step::Sleep(until) => {
                    sleep_until(self.instant(Some(until))).await;
                    life
                }
                Step::Rest => {
                    self.report(&mut life);
                    return std::future::pending().await;
                }
            };
        }
    }

    /// Creates a request, or pauses.
    async fn request(&self, life: Lifecycle, backoff: &mut Option<Backoff<Instant>>) -> Lifecycle {
        match create(self.issuing, self.client, self.certificate).await {
            Ok(requested) => {
                tracing::debug!(pod = %self.certificate.pod, request = requested.name, "a certificate was requested");
                life.requested(requested)
            }
            Err(error) => {
                let CertificateRef { pod, volume, source, .. } = self.certificate;
                tracing::warn!(%pod, volume, source, %error, "cannot request a certificate; trying again");
                self.publish(&life, Some(CertificateError::Unavailable(error)));
                pause_after(backoff).await;
                life
            }
        }
    }

    /// Waits for the decision about the request, and reports meanwhile what is due.
    async fn wait(
        &self,
        mut life: Lifecycle,
        name: &str,
        backoff: &mut Option<Backoff<Instant>>,
    ) -> Lifecycle {
        let namespace = &*self.certificate.pod.namespace;
        let failing = |error: &crate::api::FollowError| {
            let error = object_error(error.error_kind, error.message.clone());
            tracing::debug!(pod = %self.certificate.pod, name, %error, "cannot watch a certificate request; trying again");
        };
        let mut decided = pin!(decision(self.issuing, self.client, namespace, name, failing));
        let mut undecided_at = Some(Instant::now() + PATIENCE);
        let decision = loop {
            let due = self.instant(life.next_report()).into_iter().chain(undecided_at).min();
            tokio::select! {
                // Cancel-safe: it is polled on until it is decided.
                decision = &mut decided => break decision,
                // Cancel-safe: a sleep until a fixed time takes nothing.
                () = sleep_until(due) => {
                    if undecided_at.take_if(|time| *time <= Instant::now()).is_some() {
                        let (request, signer) = (format!("{namespace}/{name}"), self.certificate.signer.clone());
                        self.publish(&life, Some(CertificateError::Undecided { request, signer }));
                    }
                    self.report(&mut life);
                }
            }
        };
        let is_deleted = decision == Decision::Deleted;
        let (life, event) = life.decided(decision, namespace, rand::random());
        if let Some(event) = event {
            (self.issuing.deps.events)(&self.certificate.pod, None, &event);
        }
        if is_deleted {
            tracing::warn!(pod = %self.certificate.pod, name, "a certificate request was deleted before it was decided; requesting again");
            pause_after(backoff).await;
        } else {
            *backoff = None;
        }
        life
    }

    /// Publishes what is known, and records what is due.
    fn report(&self, life: &mut Lifecycle) {
        self.publish(life, None);
        for event in life.reports(self.now()) {
            (self.issuing.deps.events)(&self.certificate.pod, None, &event);
        }
    }

    /// Publishes what the pod gets, or, before anything was decided, why it gets nothing.
    fn publish(&self, life: &Lifecycle, why: Option<CertificateError>) {
        self.counted.set(life.counted());
        if let Some(state) = life.published().or(why.map(CertificateState::Failed)) {
            publish(self.known, state);
        }
    }

    fn now(&self) -> Timestamp {
        self.issuing.deps.clock.steady()
    }

    /// A little after a time of the steady clock: events are due after their times.
    fn instant(&self, at: Option<Timestamp>) -> Option<Instant> {
        let left = at?.duration_since(self.now());
        Some(Instant::now() + Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1))
    }
}

async fn pause_after(backoff: &mut Option<Backoff<Instant>>) {
    let now = Instant::now();
    let next = Backoff::next(*backoff, &PAUSE, now, now);
    *backoff = Some(next);
    sleep(pause(next.delay, Duration::ZERO, rand::random())).await;
}

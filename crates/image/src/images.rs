//! The crate's handle: ensures that an image is present before its container is created.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::settings::ImageVerification;
use hostlet_base::{
    ImageReference, PodEvent, PodRef, PodUid, WallClock, go_duration, go_quoted, reasons, with_default_tag,
};
use hostlet_host::file_work;
use hostlet_runtime::cri::wire::PodSandboxConfig;
use hostlet_runtime::cri::{ImageInfo, ImageService};
use hostlet_store::{Store, Table};
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::access::{PullRecords, RecordUpkeep, StockRecords, Verdict};
use super::backoff::PullBackoffs;
use super::credentials::{ProviderFailure, PullSecrets, RegistryCredentials, SourcedLogin};
use super::metrics::PullMetrics;
use super::now::Now;
use super::puller::{PullError, Puller};
use super::{ImageError, PullLimits, PullPolicy, PullUnderWay};

/// A container's request for an image.
#[derive(Clone)]
pub struct ImageRequest<'a> {
    /// The pod of the container.
    pub pod: &'a PodRef,
    /// The image as written in the spec.
    pub image: &'a str,
    /// From the spec, with the default for its tag.
    pub policy: PullPolicy,
    /// Configuration of the sandbox that the container will run in.
    pub sandbox: PodSandboxConfig,
    /// The pod's pull Secrets.
    pub secrets: &'a dyn PullSecrets,
}

/// An image that is present in the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsuredImage {
    /// What the runtime reports about it.
    pub image: ImageInfo,
    /// How long the pull took; `None` if no pull was needed.
    pub pulled: Option<PulledIn>,
}

/// How long a pull took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulledIn {
    /// The time the runtime took.
    pub pull: Duration,
    /// The time since the request, including the wait in the queue.
    pub total: Duration,
}

/// What a request found out, for the metrics; `None` if unknown.
#[derive(Default)]
struct FoundOut {
    is_present: Option<bool>,
    needs_pull: Option<bool>,
}

/// Ensures images. Cheap to clone; clones share limits, pulls in progress and back-offs.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    service: Arc<dyn ImageService>,
    puller: Puller,
    credentials: RegistryCredentials,
    records: PullRecords,
    backoffs: Mutex<PullBackoffs>,
    metrics: PullMetrics,
    store: Store,
    clock: WallClock,
}

impl Images {
    /// Pulls through `service` within `limits`, with the pods' credentials and these of the host. Which present images need
    /// credentials is the `verification`. Back-offs, and records of who may use which image, are persisted in `store` and resume from
    /// there.
    pub fn new(
        service: Arc<dyn ImageService>,
        limits: PullLimits,
        verification: ImageVerification,
        credentials: RegistryCredentials,
        store: Store,
        clock: WallClock,
    ) -> Self {
        let now = Now { tokio: Instant::now(), wall: clock.now() };
        let puller = Puller::new(service.clone(), limits, now.tokio);
        let backoffs = Mutex::new(PullBackoffs::new(store.all(Table::ImagePulls), now));
        let records = PullRecords::new(verification, store.clone(), clock.clone());
        Self {
            inner: Arc::new(Inner {
                service,
                puller,
                credentials,
                records,
                backoffs,
                metrics: PullMetrics::default(),
                store,
                clock,
            }),
        }
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.inner.records.register(metrics);
        self.inner.metrics.register(metrics);
    }

    /// Continues with the records that a stock kubelet left in its root directory, unless there are own ones.
    pub async fn take_over_records(&self, root_dir: &Path) {
        let (records, root_dir) = (&self.inner.records, root_dir.to_owned());
        if records.are_empty() {
            // A panic is a failed read: the images count as preloaded.
            let stock = file_work(move || StockRecords::read(&root_dir)).await.unwrap_or_default();
            records.take_over(stock);
        }
    }

    /// The task that removes records of images that the runtime no longer has.
    pub fn record_upkeep(&self) -> RecordUpkeep {
        RecordUpkeep::new(self.inner.service.clone(), self.inner.records.clone())
    }

    /// Ensures that the runtime has the image and that the pod may use it, according to its pull policy. Events go to `report`, with
    /// upstream's reasons and messages.
    ///
    /// Cancel-safe. Pods that need the same image with the same credentials share one pull, which continues as long as one of them waits.
    pub async fn ensure(
        &self,
        request: ImageRequest<'_>,
        report: &mut (dyn FnMut(PodEvent) + Send),
    ) -> Result<EnsuredImage, ImageError> {
        let (policy, mut found_out) = (request.policy, FoundOut::default());
        let ensured = self.ensure_finding_out(request, report, &mut found_out).await;
        self.inner.records.count(policy.as_str(), found_out.is_present, found_out.needs_pull);
        ensured
    }

    async fn ensure_finding_out(
        &self,
        request: ImageRequest<'_>,
        report: &mut (dyn FnMut(PodEvent) + Send),
        found_out: &mut FoundOut,
    ) -> Result<EnsuredImage, ImageError> {
        let requested = request.image;
        let image = with_default_tag(requested).map_err(|problem| {
            let error = ImageError::InvalidName { image: requested.to_owned(), problem };
            reported(error, reasons::INSPECT_FAILED, report)
        })?;

        let present = match request.policy {
            PullPolicy::Always => None,
            PullPolicy::IfNotPresent | PullPolicy::Never => {
                let present = self.inner.service.image_status(&image, &request.sandbox.annotations).await;
                let present = present.map_err(|e| {
                    let error = ImageError::Inspect { image: requested.to_owned(), message: e.to_string() };
                    reported(error, reasons::INSPECT_FAILED, report)
                })?;
                found_out.is_present = Some(present.is_some());
                present
            }
        };
        let mut logins = None;
        if let Some(present) = &present {
            let may_use = match self.inner.records.verdict(requested, present) {
                Verdict::Granted => true,
                Verdict::MustPull => false,
                Verdict::Depends => {
                    let known = self.logins(&request, &image, report).await;
                    let known = known.inspect_err(|_| self.inner.records.check_failed())?;
                    let may_use = self.inner.records.admits(requested, &present.id, &known);
                    logins = Some(known);
                    may_use
                }
            };
            if may_use {
                found_out.needs_pull = Some(false);
                let access =
                    if self.inner.records.is_enabled() { " and can be accessed by the pod" } else { "" };
                let message =
                    format!("Container image {} already present on machine{access}", go_quoted(requested));
                report(PodEvent::normal(reasons::PULLED, message));
                return Ok(EnsuredImage { image: present.clone(), pulled: None });
            }
        }
        match request.policy {
            // The same for an image that the pod may not use: its presence is nobody else's business.
            PullPolicy::Never => {
                found_out.needs_pull = found_out.is_present.filter(|is_present| *is_present);
                let error = ImageError::NeverPull { image: requested.to_owned() };
                Err(reported(error, reasons::ERR_IMAGE_NEVER_PULL, report))
            }
            PullPolicy::Always | PullPolicy::IfNotPresent => {
                found_out.needs_pull = Some(true);
                self.pull(request, &image, present, logins, report).await
            }
        }
    }

    /// The credential providers for an image, as a spec names it, that failed when they were asked last.
    pub fn provider_failures(&self, image: &str) -> Vec<ProviderFailure> {
        let name = ImageReference::parse(image).map(|reference| reference.name).unwrap_or_default();
        self.inner.credentials.provider_failures(&name)
    }

    /// The pulls in progress, oldest first.
    pub fn pulls(&self) -> Vec<PullUnderWay> {
        self.inner.puller.under_way()
    }

    async fn pull(
        &self,
        request: ImageRequest<'_>,
        image: &str,
        present: Option<ImageInfo>,
        logins: Option<Vec<SourcedLogin>>,
        report: &mut (dyn FnMut(PodEvent) + Send),
    ) -> Result<EnsuredImage, ImageError> {
        let (pod, requested) = (request.pod, request.image);
        let requested_at = Instant::now();
        if let Some(error) = self.inner.backoffs.lock().in_force(&pod.uid, requested, requested_at) {
            report(PodEvent::normal(
                reasons::BACK_OFF,
                format!("Back-off pulling image {}", go_quoted(requested)),
            ));
            return Err(error);
        }

        let logins = match logins {
            Some(logins) => logins,
            None => self.logins(&request, image, report).await?,
        };
        let present = match request.policy {
            // Looked for only now: it decides nothing but whose the image is if the pull is cut short.
            PullPolicy::Always => {
                let present = self.inner.service.image_status(image, &request.sandbox.annotations).await;
                present.ok().flatten()
            }
            PullPolicy::IfNotPresent | PullPolicy::Never => present,
        };
        let intent = self.inner.records.begin(requested, present.as_ref()).await;
        report(PodEvent::normal(reasons::PULLING, format!("Pulling image {}", go_quoted(requested))));
        let tried = logins.iter().map(|found| found.login.clone()).collect();
        match self.inner.puller.pull(image, tried, request.sandbox).await {
            Ok(pulled) => {
                intent.succeeded(&pulled.image.id, pulled.login.and_then(|index| logins.get(index)));
                let total = requested_at.elapsed();
                // A late joiner has waited for only part of the pull.
                let took = PulledIn { pull: pulled.took.min(total), total };
                self.inner.metrics.pulled(pulled.image.size, total);
                report(PodEvent::normal(reasons::PULLED, pulled_message(requested, took, pulled.image.size)));
                Ok(EnsuredImage { image: pulled.image, pulled: Some(took) })
            }
            // The image is there, so its intent stays.
            Err(PullError::Inspect(message)) => {
                let error = ImageError::Inspect { image: requested.to_owned(), message };
                Err(reported(error, reasons::INSPECT_FAILED, report))
            }
            Err(e @ (PullError::Throttled | PullError::Runtime(_))) => {
                intent.failed();
                let message = e.to_string();
                report(failed_to_pull(requested, &message));
                self.failed(&pod.uid, requested, message.clone());
                Err(ImageError::of_pull(requested, message))
            }
        }
    }

    /// The logins to try for `image`.
    async fn logins(
        &self,
        request: &ImageRequest<'_>,
        image: &str,
        report: &mut (dyn FnMut(PodEvent) + Send),
    ) -> Result<Vec<SourcedLogin>, ImageError> {
        // Parsed before.
        let name = ImageReference::parse(image).map(|reference| reference.name).unwrap_or_default();
        let secrets = request.secrets.get().await;
        self.inner.credentials.of(&name, &secrets, request.secrets.account()).await.map_err(|error| {
            let message = error.to_string();
            report(failed_to_pull(request.image, &message));
            ImageError::Credentials { message }
        })
    }

    fn failed(&self, pod: &PodUid, requested: &str, message: String) {
        let now = Now { tokio: Instant::now(), wall: self.inner.clock.now() };
        let mut backoffs = self.inner.backoffs.lock();
        backoffs.failed(pod, requested, message, now.tokio);
        self.inner.store.put(Table::ImagePulls, pod.as_str(), &backoffs.stored(pod, now));
    }
}

fn failed_to_pull(requested: &str, message: &str) -> PodEvent {
    PodEvent::warning(reasons::FAILED, format!("Failed to pull image {}: {message}", go_quoted(requested)))
}

/// An error whose event has the same message as the pod's status.
fn reported(
    error: ImageError,
    reason: &'static str,
    report: &mut (dyn FnMut(PodEvent) + Send),
) -> ImageError {
    report(PodEvent::warning(reason, error.to_string()));
    error
}

fn pulled_message(image: &str, took: PulledIn, size: u64) -> String {
    let milliseconds = |d: Duration| go_duration(Duration::from_millis(d.as_millis() as u64));
    format!(
        "Successfully pulled image {} in {} ({} including waiting). Image size: {size} bytes.",
        go_quoted(image),
        milliseconds(took.pull),
        milliseconds(took.total),
    )
}

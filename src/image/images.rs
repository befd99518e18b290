//! The room's handle: makes sure that an image is there before a container is made of it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::backoff::{Now, PullBackoffs};
use super::puller::{PullError, Puller};
use super::{ImageError, PullLimits, PullPolicy, PullUnderWay, with_default_tag};
use crate::cri::wire::PodSandboxConfig;
use crate::cri::{ImageInfo, ImageService};
use crate::store::{Store, Table};
use crate::types::{PodEvent, PodRef, PodUid, WallClock, go_duration, go_quoted};

/// An image that a container of a pod needs.
#[derive(Clone, Debug)]
pub struct ImageRequest<'a> {
    /// The pod.
    pub pod: &'a PodRef,
    /// The image as its spec names it.
    pub image: &'a str,
    /// When to pull it.
    pub policy: PullPolicy,
    /// The sandbox the container will run in.
    pub sandbox: PodSandboxConfig,
}

/// An image the runtime has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsuredImage {
    /// The image.
    pub image: ImageInfo,
    /// How long its pull took; `None` if none was needed.
    pub pulled: Option<PulledIn>,
}

/// How long a pull took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulledIn {
    /// By the runtime.
    pub pull: Duration,
    /// Since it was asked for, its turn waited for included.
    pub total: Duration,
}

/// Gets images. Cheap to clone; all clones share limits, pulls under way and back-off.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    service: Arc<dyn ImageService>,
    puller: Puller,
    backoffs: Mutex<PullBackoffs>,
    store: Store,
    clock: WallClock,
}

impl Images {
    /// Pulls through `service` within `limits`. Back-offs are kept in `store`, and go on from there.
    pub fn new(service: Arc<dyn ImageService>, limits: PullLimits, store: Store, clock: WallClock) -> Self {
        let now = Now { tokio: Instant::now(), wall: clock.now() };
        let puller = Puller::new(service.clone(), limits, now.tokio);
        let backoffs = Mutex::new(PullBackoffs::new(store.all(Table::ImagePulls), now));
        Self { inner: Arc::new(Inner { service, puller, backoffs, store, clock }) }
    }

    /// Makes sure that the runtime has an image, by its policy, and tells `report` what happens on the way, in
    /// upstream's words.
    ///
    /// Cancel-safe. Pods that want the same image share its pull: it goes on as long as one of them waits.
    pub async fn ensure(
        &self,
        request: ImageRequest<'_>,
        report: &mut (dyn FnMut(PodEvent) + Send),
    ) -> Result<EnsuredImage, ImageError> {
        let requested = request.image;
        let image = with_default_tag(requested).map_err(|problem| {
            let error = ImageError::InvalidName { image: requested.to_owned(), problem };
            reported(error, "InspectFailed", report)
        })?;

        let present = match request.policy {
            PullPolicy::Always => None,
            PullPolicy::IfNotPresent | PullPolicy::Never => {
                self.inner.service.image_status(&image).await.map_err(|e| {
                    let error = ImageError::Inspect { image: requested.to_owned(), message: e.to_string() };
                    reported(error, "InspectFailed", report)
                })?
            }
        };
        match (present, request.policy) {
            (Some(image), _) => {
                report(PodEvent::normal(
                    "Pulled",
                    format!(
                        "Container image {} already present on machine and can be accessed by the pod",
                        go_quoted(requested)
                    ),
                ));
                Ok(EnsuredImage { image, pulled: None })
            }
            (None, PullPolicy::Never) => {
                let error = ImageError::NeverPull { image: requested.to_owned() };
                Err(reported(error, "ErrImageNeverPull", report))
            }
            (None, PullPolicy::Always | PullPolicy::IfNotPresent) => {
                self.pull(request.pod, requested, &image, request.sandbox, report).await
            }
        }
    }

    /// The pulls under way, the oldest first.
    pub fn pulls(&self) -> Vec<PullUnderWay> {
        self.inner.puller.under_way()
    }

    async fn pull(
        &self,
        pod: &PodRef,
        requested: &str,
        image: &str,
        sandbox: PodSandboxConfig,
        report: &mut (dyn FnMut(PodEvent) + Send),
    ) -> Result<EnsuredImage, ImageError> {
        let asked = Instant::now();
        if let Some(error) = self.inner.backoffs.lock().in_force(&pod.uid, requested, asked) {
            report(PodEvent::normal("BackOff", format!("Back-off pulling image {}", go_quoted(requested))));
            return Err(error);
        }

        report(PodEvent::normal("Pulling", format!("Pulling image {}", go_quoted(requested))));
        match self.inner.puller.pull(image, sandbox).await {
            Ok(pulled) => {
                let total = asked.elapsed();
                // Who joins a pull late has waited for less than all of it.
                let took = PulledIn { pull: pulled.took.min(total), total };
                report(PodEvent::normal("Pulled", pulled_message(requested, took, pulled.image.size)));
                Ok(EnsuredImage { image: pulled.image, pulled: Some(took) })
            }
            Err(PullError::Inspect(message)) => {
                let error = ImageError::Inspect { image: requested.to_owned(), message };
                Err(reported(error, "InspectFailed", report))
            }
            Err(e @ (PullError::Throttled | PullError::Runtime(_))) => {
                let message = e.to_string();
                report(PodEvent::warning(
                    "Failed",
                    format!("Failed to pull image {}: {message}", go_quoted(requested)),
                ));
                self.failed(&pod.uid, requested, message.clone());
                Err(ImageError::of_pull(requested, message))
            }
        }
    }

    fn failed(&self, pod: &PodUid, requested: &str, message: String) {
        let now = Now { tokio: Instant::now(), wall: self.inner.clock.now() };
        let mut backoffs = self.inner.backoffs.lock();
        backoffs.failed(pod, requested, message, now.tokio);
        self.inner.store.put(Table::ImagePulls, pod.as_str(), &backoffs.stored(pod, now));
    }
}

/// An error whose event carries the same message as the pod's status.
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

//! One pass: looks at what the runtime has and who uses it, then has the planned images removed. Thin: the decisions are in the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use hostlet_base::node::NodeEvents;
use hostlet_base::settings::ImageGcPolicy;
use hostlet_base::{WallClock, error_chain, human_size};
use hostlet_runtime::cri::{ImageService, RuntimeService};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use tokio::sync::watch;
use tokio::time::Instant;

use super::disk::{ImageDisk, MeasureFilesystem};
use super::error::GcError;
use super::metrics::{GcMetrics, RemovalReason};
use super::mounts::ImageMounts;
use super::plan::{Candidate, Shortage, SpaceRun, candidates};
use super::records::ImageRecords;
use super::report::{stay, too_little};
use super::request::{Freed, RemovalFailure, RemovedImage, UnusedImage, UnusedImages};
use super::users::{ImageIndex, ImageUser, ImageUsers, PodImages, is_named};
use crate::now::Now;

/// What the pods of this node need of images. Must not block.
pub type PodImagesSource = Arc<dyn Fn() -> Vec<PodImages> + Send + Sync>;

/// What the collection observes, and where it reports.
pub struct ImageGcDeps {
    /// The runtime, whose containers use images.
    pub runtime: Arc<dyn RuntimeService>,
    /// Lists and removes its images, and says where they are.
    pub images: Arc<dyn ImageService>,
    /// What pods need.
    pub pods: PodImagesSource,
    /// The names and IDs of the images that archives bring; `None` while they are not known.
    pub archives: watch::Receiver<Option<BTreeSet<String>>>,
    /// Measures the image filesystem.
    pub measure: MeasureFilesystem,
    /// Keeps when images were used.
    pub store: Store,
    /// Receives the events of the node.
    pub events: NodeEvents,
    /// The wall clock.
    pub clock: WallClock,
}

/// What a look at the runtime found.
struct Found {
    /// The users of images.
    users: ImageUsers,
    /// The images that nothing uses, in the order in which they go.
    unused: Vec<Candidate>,
    now: Now,
}

/// Collects images.
pub(super) struct Collector {
    pub(super) policy: ImageGcPolicy,
    pub(super) deps: ImageGcDeps,
    records: ImageRecords,
    mounts: ImageMounts,
    metrics: GcMetrics,
}

impl Collector {
    pub(super) fn new(policy: ImageGcPolicy, deps: ImageGcDeps, metrics: &Metrics) -> Self {
        let own = GcMetrics::default();
        own.register(metrics);
        let records = ImageRecords::new(deps.store.clone());
        Self { policy, deps, records, mounts: ImageMounts::default(), metrics: own }
    }

    /// Removes images that were unused for too long; then, if their filesystem is too full, the least recently used ones until it is not.
    /// With a policy that is off, only looks: the uses of images are known when somebody asks.
    pub(super) async fn collect(&mut self) -> Result<(), GcError> {
        let looked = self.look().await;
        if !self.policy.is_on() {
            if let Err(error) = looked {
                tracing::debug!(error = error_chain(&error), "cannot look at the images");
            }
            return Ok(());
        }
        let Found { users, unused, .. } = looked?;
        let (expired, left): (Vec<_>, Vec<_>) =
            unused.into_iter().partition(|image| image.has_expired(&self.policy));
        let mut freed = Freed::default();
        for image in &expired {
            self.remove(image, RemovalReason::Age, &mut freed).await;
        }
        let disk = ImageDisk::measure(&*self.deps.images, &self.deps.measure).await?;
        if let Some(shortage) = Shortage::of(&disk, &self.policy) {
            self.free(shortage, &disk, left, &users, &mut freed).await?;
        }
        match freed.failures.first() {
            None => Ok(()),
            Some(first) => Err(GcError::Removals {
                freed: freed.bytes(),
                failed: freed.failures.len(),
                first: format!("{}: {}", first.image, first.error),
            }),
        }
    }

    /// Removes images until `disk` has enough space.
    async fn free(
        &mut self,
        shortage: Shortage,
        disk: &ImageDisk,
        unused: Vec<Candidate>,
        users: &ImageUsers,
        freed: &mut Freed,
    ) -> Result<(), GcError> {
        tracing::info!(
            used_percent = disk.used_percent(),
            wanted = human_size(shortage.wanted),
            "the image filesystem is too full; removing unused images"
        );
        let mut run = SpaceRun::new(shortage, unused.clone(), &self.policy);
        while let Some(image) = run.next() {
            if self.remove(&image, RemovalReason::Space, freed).await {
                run.removed(image.size, disk.available_now(&self.deps.measure).await);
            }
        }
        if run.is_reached() || !freed.failures.is_empty() {
            return Ok(());
        }
        let left = freed.left_of(unused);
        let amounts = (shortage.wanted, run.freed());
        let message = too_little(amounts, disk, &self.policy, &self.records, users, &left);
        Err(GcError::Insufficient { message })
    }

    /// Removes every image that may be removed.
    pub(super) async fn delete_unused(&mut self) -> Result<Freed, GcError> {
        let Found { users, unused, .. } = self.look().await?;
        let mut freed = Freed::default();
        let mut run = SpaceRun::new(Shortage::ALL, unused.clone(), &self.policy);
        while let Some(image) = run.next() {
            self.remove(&image, RemovalReason::Space, &mut freed).await;
        }
        let (images, bytes) = (freed.images.len(), human_size(freed.bytes()));
        // An eviction that cannot be avoided asks again and again.
        match images {
            0 => tracing::debug!("there was no unused image to remove, as requested"),
            _ => tracing::info!(images, bytes, "removed all unused images, as requested"),
        }
        let left = freed.left_of(unused);
        freed.stays = stay(&self.policy, &self.records, &users, &left);
        Ok(freed)
    }

    /// The images that nothing uses.
    pub(super) async fn unused(&mut self) -> Result<UnusedImages, GcError> {
        let Found { unused, now, .. } = self.look().await?;
        let disk = ImageDisk::measure(&*self.deps.images, &self.deps.measure).await?;
        let images = unused.into_iter().map(|image| UnusedImage {
            fate: image.fate(&self.policy, now.wall),
            id: image.id,
            names: image.names,
            size: image.size,
            first_detected: image.first_detected,
            last_used: image.last_used,
        });
        Ok(UnusedImages { images: images.collect(), disk, policy: self.policy })
    }

    /// Looks at what the runtime has and who uses it.
    async fn look(&mut self) -> Result<Found, GcError> {
        let archives = self.deps.archives.borrow().clone().ok_or(GcError::ArchivesUnknown)?;
        let mut images = self.deps.images.list_images().await.map_err(GcError::Images)?;
        let containers = self.deps.runtime.container_images().await.map_err(GcError::Containers)?;
        let sandboxes = self.deps.runtime.sandbox_image_setting().await.map_err(GcError::Settings)?;
        let pods = (self.deps.pods)();
        self.mounts.refresh(&*self.deps.runtime, &containers, &pods).await?;
        let mut users = ImageUsers::new();
        let index = ImageIndex::new(&images);
        for container in &containers {
            let id = &container.container;
            let user = container.pod.clone().map_or_else(|| ImageUser::Container(id.clone()), ImageUser::Pod);
            let references = container.references.iter().chain(self.mounts.of(id));
            index.note(&mut users, references.map(String::as_str), &user);
        }
        for pod in &pods {
            index.note(&mut users, pod.names.iter().map(String::as_str), &ImageUser::Pod(pod.pod.clone()));
        }
        // Runtimes that pin this image do not have it among their settings.
        index.note(&mut users, sandboxes.as_deref(), &ImageUser::Sandboxes);
        let pinned = images.iter().filter(|image| image.pinned).map(|image| image.id.clone());
        let pinned: BTreeSet<String> = pinned.collect();
        // A runtime may list an image once for each of its names.
        images.iter_mut().for_each(|image| image.pinned = pinned.contains(&image.id));
        let now = Now { tokio: Instant::now(), wall: self.deps.clock.now() };
        self.records.observe(&images, &users, now);
        let unused = candidates(&self.records, &users, &archives, now);
        Ok(Found { users, unused, now })
    }

    /// Removes an image, unless a pod that has been admitted since the look needs it. Returns whether it did.
    async fn remove(&mut self, image: &Candidate, reason: RemovalReason, freed: &mut Freed) -> bool {
        if is_named(&(self.deps.pods)(), &image.id, &image.names) {
            return false;
        }
        let name = image.names.first().unwrap_or(&image.id).clone();
        match self.deps.images.remove_image(&image.id).await {
            Ok(()) => {
                let (id, size) = (image.id.clone(), image.size);
                let why = reason.as_str();
                tracing::info!(image = name, id, size = human_size(size), why, "removed an unused image");
                self.records.forget(&id);
                self.metrics.removed(reason);
                freed.images.push(RemovedImage { id, names: image.names.clone(), size });
                true
            }
            Err(error) => {
                tracing::warn!(image = name, id = image.id, %error, "cannot remove an unused image");
                freed.failures.push(RemovalFailure { image: name, error: error.to_string() });
                false
            }
        }
    }
}

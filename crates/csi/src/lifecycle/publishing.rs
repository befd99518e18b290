//! Publishes a volume: waits for its attachment and driver, stages, publishes, sets the group. Each attempt starts over, and skips what is
//! known to be done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_host::{GroupChange, MountTable, PathError, file_work, real_path, set_group_of_tree};
use tokio::time::{Instant, timeout};

use super::expanding::NotYet;
use super::plan::{Due, Key};
use super::record::Done;
use super::vol_data::{self, VolData};
use super::worker::{Interrupted, VolumeWorker};
use crate::{
    AccessMode, AttachError, Capability, Form, NodeCapabilities, NodeService, Publish, PublishCall,
    PublishState, Published, StageCall, VolumePhase,
};

/// How often a volume with `requiresRepublish` is published again (upstream: with each sync of its pod).
const REPUBLISH: Duration = Duration::from_secs(60);

/// How long the API server may take to learn that a volume is in use, before the pod's events report the wait.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Why an attempt did not succeed.
enum Failure {
    /// A job is processed first.
    Interrupted,
    /// Retried after a back-off.
    Failed(String),
    /// Retried after a change.
    Waits(String),
    /// There is no room for it on this node. Retried after a back-off.
    Exhausted(String),
}

impl From<Interrupted> for Failure {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The step that failed, in upstream's words.
#[derive(Clone, Copy)]
enum At {
    Attach,
    Stage,
    Publish,
    Expand,
}

impl At {
    /// Upstream's message about a volume.
    fn message(self, desired: &Publish, cause: impl std::fmt::Display) -> String {
        let step = match (self, &desired.form) {
            (Self::Attach, Form::Filesystem { .. }) => "MountVolume.WaitForAttach",
            (Self::Attach, Form::Block) => "MapVolume.WaitForAttach",
            (Self::Stage, Form::Filesystem { .. }) => "MountVolume.MountDevice",
            (Self::Stage, Form::Block) => "MapVolume.SetUpDevice",
            (Self::Publish, Form::Filesystem { .. }) => "MountVolume.SetUp",
            (Self::Publish, Form::Block) => "MapVolume.MapPodDevice",
            (Self::Expand, Form::Filesystem { .. }) => "MountVolume.Setup failed while expanding volume",
            (Self::Expand, Form::Block) => "MapVolume.MarkVolumeAsMounted failed while expanding volume",
        };
        let failed = if matches!(self, Self::Expand) { "" } else { " failed" };
        format!("{step}{failed} for volume {:?} : {cause}", desired.spec_name)
    }
}

impl VolumeWorker {
    /// Publishes the volume for a pod, as far as that is possible now.
    pub(super) async fn publish(&mut self, key: Key) {
        let Some(desired) = self.desired.get(&key).map(|desired| desired.publish.clone()) else { return };
        let was = self.record.published(&key.0, &key.1);
        let attempt = self.attempt(&key, &desired).await;
        let backoff = self.desired.get(&key).and_then(|desired| desired.backoff);
        let (due, backoff) = match attempt {
            Ok(path) => {
                self.last_error = self.expanding.error.clone();
                self.report(&key, PublishState::Published(Published { path }));
                let again = desired.is_republished.then(|| Due::At(Instant::now() + REPUBLISH));
                (again.unwrap_or(Due::Never), None)
            }
            Err(Failure::Interrupted) => return,
            Err(Failure::Exhausted(text)) => {
                self.failed(&key, was, text, PublishState::Exhausted);
                let next = self.later(backoff);
                (Due::At(next.updated + next.delay), Some(next))
            }
            Err(Failure::Failed(text)) => {
                self.failed(&key, was, text.clone(), PublishState::Failed(text));
                let next = self.later(backoff);
                (Due::At(next.updated + next.delay), Some(next))
            }
            Err(Failure::Waits(text)) => {
                self.failed(&key, was, text.clone(), PublishState::Failed(text));
                (Due::OnChange, backoff)
            }
        };
        // A request that arrived during the attempt stays due.
        if let Some(desired) =
            self.desired.get_mut(&key).filter(|known| Arc::ptr_eq(&known.publish, &desired))
        {
            (desired.due, desired.backoff) = (due, backoff);
        }
    }

    /// A volume that is published stays so for its pod if publishing it again fails.
    fn failed(&mut self, key: &Key, was: Done, text: String, state: PublishState) {
        let volume = &self.record.id;
        tracing::warn!(pod = %key.0, %volume, "{text}");
        self.last_error = Some(text);
        match was {
            Done::Yes => {}
            Done::No | Done::Maybe => self.report(key, state),
        }
    }

    async fn attempt(&mut self, key: &Key, desired: &Arc<Publish>) -> Result<PathBuf, Failure> {
        let Some(target) = self.target(key) else {
            let cause = "the pod's UID is no name of a directory";
            return Err(Failure::Waits(At::Publish.message(desired, cause)));
        };
        if desired.access_mode == AccessMode::ReadWriteOncePod && self.is_used_by_others(key) {
            let cause = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
            return Err(Failure::Waits(At::Publish.message(desired, cause)));
        }
        if self.record.published(&key.0, &key.1) == Done::Yes {
            if !self.is_there(&target).await {
                self.record.set_published(&key.0, &key.1, Done::Maybe);
            } else if !desired.is_republished {
                return Ok(target);
            }
        }
        if self.record.is_attached && self.context.is_none() {
            self.context = Some(self.attachment(desired).await?);
        }
        let (first, whose) = match desired.is_ephemeral {
            true => (At::Publish, "mounter.SetUpAt failed to get CSI client"),
            false => (At::Stage, "attacher.MountDevice failed to create newCsiDriverClient"),
        };
        let service = self.service().map_err(|error| {
            Failure::Waits(first.message(desired, format_args!("kubernetes.io/csi: {whose}: {error}")))
        })?;
        let capabilities = service.capabilities().await;
        let capabilities = capabilities.map_err(|error| Failure::Failed(first.message(desired, error)))?;
        if self.record.staged == Done::Yes && !self.is_there(&self.staging()).await {
            // Another kubelet ran meanwhile, and has unstaged it.
            self.record.staged = Done::Maybe;
        }
        if capabilities.stage && !desired.is_ephemeral && self.record.staged != Done::Yes {
            self.stage(desired, &*service, capabilities).await?;
        }
        self.call_publish(key, desired, &*service, capabilities, &target).await?;
        Ok(target)
    }

    fn is_used_by_others(&self, key: &Key) -> bool {
        self.record.publications.iter().any(|other| other.pod != key.0.as_str())
    }

    /// Whether there is something at a target. Does not access what is mounted, which may not respond.
    async fn is_there(&self, target: &Path) -> bool {
        let (mounts, target) = (self.shared.settings.mounts.clone(), target.to_owned());
        let look = move || match mounts.table() {
            Ok(table) => is_mounted(&table, &target) || std::fs::symlink_metadata(&target).is_ok(),
            // What cannot be read is no reason to do it all again.
            Err(_) => true,
        };
        file_work(look).await.unwrap_or(true)
    }

    /// Waits for the attachment. Returns the publish context.
    async fn attachment(&mut self, desired: &Publish) -> Result<BTreeMap<String, String>, Failure> {
        let (attachments, id) = (self.shared.attachments.clone(), self.record.id.clone());
        self.enter(VolumePhase::Attaching);
        // The Node reports the volume as in use from now on.
        self.save();
        let attached = async move {
            let reported = timeout(REPORT_TIMEOUT, attachments.reported_in_use(&id)).await;
            reported.map_err(|_| AttachError::NotReportedInUse)?;
            attachments.attached(&id).await
        };
        let attached = self.unless_released(attached).await?;
        attached.map_err(|error| {
            let text = At::Attach.message(desired, &error);
            match error {
                AttachError::NoCluster(_) => Failure::Waits(text),
                AttachError::NotReportedInUse | AttachError::NotInNodeStatus | AttachError::Failed(_) => {
                    Failure::Failed(text)
                }
                AttachError::Exhausted(_) => Failure::Exhausted(text),
            }
        })
    }

    async fn stage(
        &mut self,
        desired: &Publish,
        service: &dyn NodeService,
        capabilities: NodeCapabilities,
    ) -> Result<(), Failure> {
        let staging = self.staging();
        let label = desired.se_linux_label.as_deref();
        // That of a block device is written when it is published.
        let beside = staging.parent().filter(|_| !self.record.is_block);
        let file = beside.map(|dir| (dir.to_owned(), vol_data::of_staged(&self.record.id, label)));
        self.prepare(&staging, file, |error| At::Stage.message(desired, error)).await?;
        let before = self.record.staged;
        self.record.staged = Done::Maybe;
        self.save();
        let call = StageCall {
            handle: self.record.id.handle.clone(),
            publish_context: self.context.clone().unwrap_or_default(),
            staging: staging.clone(),
            capability: capability(desired, capabilities),
            secrets: desired.stage_secrets.clone(),
            context: desired.attributes.clone(),
            is_migrated: desired.is_migrated,
        };
        self.enter(VolumePhase::Staging);
        let Err(error) = service.stage(&call).await else {
            self.record.staged = Done::Yes;
            self.save();
            return Ok(());
        };
        if error.is_final() && before == Done::No {
            self.record.staged = Done::No;
            self.discard(&staging).await;
        }
        self.save();
        Err(Failure::Failed(At::Stage.message(desired, error)))
    }

    async fn call_publish(
        &mut self,
        key: &Key,
        desired: &Publish,
        service: &dyn NodeService,
        capabilities: NodeCapabilities,
        target: &Path,
    ) -> Result<(), Failure> {
        let parent = target.parent().unwrap_or(target);
        let place = if self.record.is_block { self.device_data() } else { parent.to_owned() };
        let file = Some((place, self.data(desired)));
        self.prepare(parent, file, |error| At::Publish.message(desired, error)).await?;
        let before = self.record.published(&key.0, &key.1);
        if before != Done::Yes {
            self.record.set_published(&key.0, &key.1, Done::Maybe);
            self.save();
        }
        let mut context = desired.attributes.clone();
        context.extend(desired.pod_attributes.clone());
        let call = PublishCall {
            handle: self.record.id.handle.clone(),
            publish_context: self.context.clone().unwrap_or_default(),
            staging: (capabilities.stage && !desired.is_ephemeral).then(|| self.staging()),
            target: target.to_owned(),
            capability: capability(desired, capabilities),
            read_only: desired.read_only,
            secrets: desired.publish_secrets.clone(),
            context,
            is_migrated: desired.is_migrated,
        };
        self.enter(VolumePhase::Publishing);
        if let Err(error) = service.publish(&call).await {
            if error.is_final() && before == Done::No {
                self.record.set_published(&key.0, &key.1, Done::No);
                self.discard(target).await;
                self.save();
            }
            return Err(Failure::Failed(At::Publish.message(desired, error)));
        }
        if before != Done::Yes {
            if let (Some(group), false, false) =
                (desired.own_group, capabilities.mount_group, self.record.is_block)
            {
                self.set_group(key, desired, group, target).await?;
            }
            // Until it has its size, it counts as perhaps published: it is published again before that is tried again.
            self.expand_before_use(desired, service, capabilities, target).await.map_err(
                |why| match why {
                    NotYet::Interrupted => Failure::Interrupted,
                    NotYet::Failed(text) => Failure::Failed(At::Expand.message(desired, text)),
                },
            )?;
            self.record.set_published(&key.0, &key.1, Done::Yes);
            self.save();
        }
        Ok(())
    }

    /// Sets the group of all files (`fsGroup`), which takes long if there are many.
    async fn set_group(
        &mut self,
        key: &Key,
        desired: &Publish,
        (group, change): (u32, GroupChange),
        target: &Path,
    ) -> Result<(), Failure> {
        let root = target.to_owned();
        let paths = self.shared.paths.clone();
        let work = async move {
            paths
                .run(key.0.as_str(), &root, &root, {
                    let root = root.clone();
                    move || set_group_of_tree(&root, group, change)
                })
                .await
        };
        let failed = |cause: String| {
            let cause = format!("applyFSGroup failed for vol {}: {cause}", desired.id.handle);
            Failure::Failed(At::Publish.message(desired, cause))
        };
        match self.unless_released(work).await? {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(error_chain(&error))),
            Err(PathError::Stuck { path }) => Err(Failure::Failed(At::Publish.message(
                desired,
                format_args!(
                    "Setting volume ownership for {} is taking longer than expected, consider using OnRootMismatch - \
                     https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
                     #configure-volume-permission-and-ownership-change-policy-for-pods",
                    path.display()
                ),
            ))),
            Err(error) => Err(failed(error_chain(&error))),
        }
    }

    /// Makes a directory, and upstream's file in another.
    async fn prepare(
        &self,
        dir: &Path,
        file: Option<(PathBuf, VolData)>,
        message: impl Fn(String) -> String,
    ) -> Result<(), Failure> {
        let dir = dir.to_owned();
        let made = file_work(move || {
            vol_data::make_dir(&dir)?;
            file.map_or(Ok(()), |(place, data)| vol_data::write(&place, &data))
        });
        let failed = |cause: String| Failure::Failed(message(format!("cannot prepare a directory: {cause}")));
        match made.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// What upstream's file says of a publication.
    fn data(&self, desired: &Publish) -> VolData {
        let (id, node) = (&self.record.id, &self.shared.settings.node);
        let mut data = vol_data::of_staged(id, desired.se_linux_label.as_deref());
        let mut put = |key: &str, value: &str| data.insert(key.to_owned(), value.to_owned());
        put(vol_data::SPEC_NAME, &desired.spec_name);
        put(vol_data::NODE, node);
        put(vol_data::ATTACHMENT, &id.attachment_name(node));
        if !self.record.is_block {
            put(vol_data::LIFECYCLE, if desired.is_ephemeral { vol_data::EPHEMERAL } else { "Persistent" });
        }
        data
    }
}

/// Whether something is mounted at a path.
pub(super) fn is_mounted(table: &MountTable, path: &Path) -> bool {
    let real = path.parent().map_or_else(PathBuf::new, real_path).join(path.file_name().unwrap_or_default());
    table.at(&real).next().is_some()
}

fn capability(desired: &Publish, capabilities: NodeCapabilities) -> Capability {
    let form = match (&desired.form, &desired.se_linux_label) {
        (Form::Filesystem { fs_type, options }, Some(label)) => {
            let mut options = options.clone();
            options.push(format!("context={label:?}"));
            Form::Filesystem { fs_type: fs_type.clone(), options }
        }
        (form, _) => form.clone(),
    };
    let group = desired.group.filter(|_| capabilities.mount_group);
    Capability { form, access_mode: desired.access_mode, group }
}

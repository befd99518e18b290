//! Implements the runtime traits.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{CgroupDriver, ContainerId, PodRef, PodUid, SandboxId};

use super::super::client::convert;
use super::super::wire::{
    AuthConfig, ContainerConfig, ContainerFilter, ContainerStatsFilter, LinuxContainerResources,
    PodSandboxConfig, PodSandboxFilter,
};
use super::super::{
    Container, ContainerImage, ContainerStats, ContainerStatus, CriError, EventStream, ExecOutput,
    ImageFilesystem, ImageInfo, ImageService, Operation, RuntimeFilesystems, RuntimeService, RuntimeStatus,
    Sandbox, SandboxStatus, StdStreams, Version,
};
use super::containers::{Stopping, no_container};
use super::lists::{SANDBOX_IMAGE, selector_of, the_last_if_equal};
use super::runtime::{FakeRuntime, Request};
use super::sandboxes::sandbox_name;
use super::{events, view};

impl FakeRuntime {
    /// A call without a pod.
    fn plain(operation: Operation) -> Request {
        Request::new(operation, None, "")
    }

    fn about_sandbox(&self, operation: Operation, id: &SandboxId) -> Request {
        let pod = self.with(|world, _| world.sandboxes.get(id).map(|record| record.pod.clone()));
        Request::new(operation, pod, id.as_str())
    }

    fn about_container(&self, operation: Operation, id: &ContainerId) -> Request {
        let pod = self.with(|world, _| world.containers.get(id).map(|record| record.pod.clone()));
        Request::new(operation, pod, id.as_str())
    }
}

#[async_trait]
impl RuntimeService for FakeRuntime {
    async fn version(&self) -> Result<Version, CriError> {
        self.call(Self::plain(Operation::Version), |world, _| Ok(world.version.clone())).await
    }

    async fn instance(&self) -> Option<String> {
        Some(self.with(|world, _| format!("run {}", world.restarts)))
    }

    async fn status(&self) -> Result<RuntimeStatus, CriError> {
        self.call(Self::plain(Operation::Status), |world, _| Ok(world.status.clone())).await
    }

    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, CriError> {
        self.call(Self::plain(Operation::RuntimeConfig), |world, _| Ok(world.cgroup_driver)).await
    }

    async fn update_runtime_config(&self, pod_cidr: &str) -> Result<(), CriError> {
        let pod_cidr = pod_cidr.to_owned();
        self.call(Self::plain(Operation::UpdateRuntimeConfig), move |world, _| {
            world.pod_cidr = Some(pod_cidr);
            Ok(())
        })
        .await
    }

    async fn run_sandbox(&self, config: PodSandboxConfig, handler: &str) -> Result<SandboxId, CriError> {
        let id: SandboxId = self.with(|world, _| world.allocator.id()).into();
        let name = sandbox_name(&config);
        let uid: PodUid = config.metadata.clone().unwrap_or_default().uid.into();
        let request =
            Request::new(Operation::RunSandbox, Some(uid), &name).reserving(name.clone(), id.as_str());
        let handler = handler.to_owned();
        self.call(request, move |world, now| world.run_sandbox(id, config, handler, now)).await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = self.about_sandbox(Operation::StopSandbox, id);
        let id = id.clone();
        self.call(request, move |world, now| {
            world.stop_sandbox(&id, now);
            Ok(())
        })
        .await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = self.about_sandbox(Operation::RemoveSandbox, id);
        let id = id.clone();
        self.call(request, move |world, now| {
            world.remove_sandbox(&id, now);
            Ok(())
        })
        .await
    }

    async fn update_sandbox(
        &self,
        id: &SandboxId,
        resources: LinuxContainerResources,
        overhead: LinuxContainerResources,
    ) -> Result<(), CriError> {
        let operation = Operation::UpdateSandbox;
        let request = self.about_sandbox(operation, id);
        let id = id.clone();
        self.call(request, move |world, _| {
            let Some(record) = world.sandboxes.get_mut(&id) else {
                let message = format!("an error occurred when try to find sandbox \"{id}\": not found");
                return Err(CriError::NotFound { operation, message });
            };
            let linux = record.config.linux.get_or_insert_default();
            (linux.resources, linux.overhead) = (Some(resources), Some(overhead));
            Ok(())
        })
        .await
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, CriError> {
        let operation = Operation::SandboxStatus;
        let request = self.about_sandbox(operation, id);
        let id = id.clone();
        self.call(request, move |world, _| {
            let Some(record) = world.sandboxes.get(&id) else {
                let message = format!("an error occurred when try to find sandbox \"{id}\": not found");
                return Err(CriError::NotFound { operation, message });
            };
            Ok(convert::sandbox_status(view::sandbox_status(&id, record)))
        })
        .await
    }

    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Arc<[Sandbox]>, CriError> {
        let label_selector = selector_of(pod);
        let filter = PodSandboxFilter { label_selector, ..PodSandboxFilter::default() };
        let listed = self.sandboxes_like(filter).await?.items.into_iter().filter_map(convert::sandbox);
        let listed: Arc<[Sandbox]> = listed.collect();
        Ok(match pod {
            None => self.with(|world, _| the_last_if_equal(&mut world.last_sandboxes, listed)),
            Some(_) => listed,
        })
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: ContainerConfig,
        _sandbox_config: PodSandboxConfig,
    ) -> Result<ContainerId, CriError> {
        let operation = Operation::CreateContainer;
        let (id, name, pod) = self.with(|world, _| {
            let pod = world.sandboxes.get(sandbox).map(|record| record.pod.clone());
            (ContainerId::from(world.allocator.id()), world.container_name(sandbox, &config), pod)
        });
        let request = Request::new(operation, pod, &name).reserving(name.clone(), id.as_str());
        let sandbox = sandbox.clone();
        self.call(request, move |world, now| world.create_container(id, &sandbox, config, now)).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = self.about_container(Operation::StartContainer, id);
        let id = id.clone();
        self.call(request, move |world, now| world.start_container(&id, now)).await
    }

    /// As in containerd, the kill after the grace period is part of the call: if cancelled, the process only gets SIGTERM.
    async fn stop_container(&self, id: &ContainerId, grace_seconds: i64) -> Result<(), CriError> {
        let request = self.about_container(Operation::StopContainer, id);
        let grace = Duration::from_secs(u64::try_from(grace_seconds).unwrap_or(0));
        let target = id.clone();
        let stopping = self.call(request, move |world, now| Ok(world.terminate(&target, grace, now))).await?;
        match stopping {
            Stopping::Done => {}
            Stopping::KillAt(at) => {
                self.wait_until(Some(at), |world, now| world.stopped(id, at, now).then_some(())).await;
            }
        }
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = self.about_container(Operation::RemoveContainer, id);
        let id = id.clone();
        self.call(request, move |world, now| {
            world.remove_container(&id, now);
            Ok(())
        })
        .await
    }

    async fn update_container(
        &self,
        id: &ContainerId,
        resources: LinuxContainerResources,
    ) -> Result<(), CriError> {
        let request = self.about_container(Operation::UpdateContainer, id);
        let id = id.clone();
        self.call(request, move |world, _| world.update_container(&id, resources)).await
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = self.about_container(Operation::ReopenLog, id);
        let id = id.clone();
        let log = self.call(request, move |world, _| world.log_of_running(&id)).await?;
        // Most tests have no log directories.
        let _ = OpenOptions::new().create(true).append(true).open(log);
        Ok(())
    }

    async fn checkpoint_container(
        &self,
        id: &ContainerId,
        file: &Path,
        _limit: Option<Duration>,
    ) -> Result<(), CriError> {
        let request = self.about_container(Operation::CheckpointContainer, id);
        let (id, file) = (id.clone(), file.to_owned());
        self.call(request, move |world, _| world.checkpoint_container(&id, &file)).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, CriError> {
        let operation = Operation::ContainerStatus;
        let request = self.about_container(operation, id);
        let id = id.clone();
        self.call(request, move |world, _| match world.containers.get(&id) {
            Some(record) => convert::container_status(world.container_view(&id, record)),
            None => Err(no_container(operation, &id)),
        })
        .await
    }

    /// As scripted; any other command prints itself and succeeds.
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<ExecOutput, CriError> {
        let operation = Operation::ExecSync;
        let request = self.about_container(operation, id);
        let exec = self.with(|world, _| world.exec(&command));
        if exec.takes > timeout {
            self.call_after(timeout, request, |_, _| Ok(())).await?;
            return Err(CriError::TimedOut { operation, deadline: timeout });
        }
        let id = id.clone();
        self.call_after(exec.takes, request, move |world, _| world.exec_in(&id, exec.output)).await
    }

    async fn exec(
        &self,
        id: &ContainerId,
        _command: Vec<String>,
        _streams: StdStreams,
    ) -> Result<String, CriError> {
        let operation = Operation::Exec;
        let request = self.about_container(operation, id);
        let (id, path) = (id.clone(), format!("/exec/{id}"));
        self.call(request, move |world, _| world.streams_of(operation, &id, &path)).await
    }

    async fn attach(&self, id: &ContainerId, _streams: StdStreams) -> Result<String, CriError> {
        let operation = Operation::Attach;
        let request = self.about_container(operation, id);
        let (id, path) = (id.clone(), format!("/attach/{id}"));
        self.call(request, move |world, _| world.streams_of(operation, &id, &path)).await
    }

    async fn port_forward(&self, id: &SandboxId, _ports: &[u16]) -> Result<String, CriError> {
        let request = self.about_sandbox(Operation::PortForward, id);
        let path = format!("/portforward/{id}");
        self.call(request, move |world, _| Ok(format!("{}{path}", world.streams))).await
    }

    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Arc<[Container]>, CriError> {
        let label_selector = selector_of(pod);
        let filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
        let listed =
            self.containers_like(filter).await?.containers.into_iter().filter_map(convert::container);
        let listed: Arc<[Container]> = listed.collect();
        Ok(match pod {
            None => self.with(|world, _| the_last_if_equal(&mut world.last_containers, listed)),
            Some(_) => listed,
        })
    }

    async fn container_images(&self) -> Result<Vec<ContainerImage>, CriError> {
        let containers = self.containers_like(ContainerFilter::default()).await?.containers;
        Ok(containers.into_iter().map(convert::container_image).collect())
    }

    async fn container_stats(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerStats>, CriError> {
        let label_selector = selector_of(pod);
        let filter = ContainerStatsFilter { label_selector, ..ContainerStatsFilter::default() };
        let stats = self.stats_like(filter).await?.stats;
        Ok(stats.into_iter().filter_map(convert::container_stats).collect())
    }

    async fn sandbox_image_setting(&self) -> Result<Option<String>, CriError> {
        self.call(Self::plain(Operation::Status), |world, _| Ok(world.sandbox_image.clone())).await
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, CriError> {
        self.sandbox_status(id).await.map(|_| Some(SANDBOX_IMAGE.to_owned()))
    }

    async fn list_pods(&self) -> Result<HashSet<PodRef>, CriError> {
        self.call(Self::plain(Operation::ListPods), |world, _| {
            let sandboxes = world.sandboxes.values().map(|record| &record.config.labels);
            let containers = world.containers.values().map(|record| &record.config.labels);
            Ok(sandboxes.chain(containers).filter_map(convert::pod_of).collect())
        })
        .await
    }

    fn events(&self) -> EventStream {
        events::stream(self.clone())
    }
}

#[async_trait]
impl ImageService for FakeRuntime {
    async fn image_status(
        &self,
        image: &str,
        _: &HashMap<String, String>,
    ) -> Result<Option<ImageInfo>, CriError> {
        let request = Request::new(Operation::ImageStatus, None, image);
        let image = image.to_owned();
        self.call(request, move |world, _| Ok(world.images.find(&image).cloned().map(convert::image))).await
    }

    async fn pull_image(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        sandbox: Option<PodSandboxConfig>,
    ) -> Result<String, CriError> {
        let operation = Operation::PullImage;
        let pod = sandbox.and_then(|config| config.metadata).map(|metadata| metadata.uid.into());
        let request = Request::new(operation, pod, image);
        let pull = self.with(|world, _| world.images.pull(image, auth.as_ref()));
        let image = image.to_owned();
        let effect = move |world: &mut super::world::World, _| match pull.error {
            Some(message) => Err(CriError::Failed { operation, message }),
            None => {
                world.touch();
                Ok(world.images.add(&image))
            }
        };
        self.call_after(pull.latency, request, effect).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), CriError> {
        let request = Request::new(Operation::RemoveImage, None, id);
        let id = id.to_owned();
        let effect = move |world: &mut super::world::World, _| {
            world.images.remove(&id);
            world.touch();
            Ok(())
        };
        self.call(request, effect).await
    }

    async fn list_images(&self) -> Result<Vec<ImageInfo>, CriError> {
        self.call(Self::plain(Operation::ListImages), |world, _| {
            Ok(world.images.list().into_iter().map(convert::image).collect())
        })
        .await
    }

    async fn image_filesystems(&self) -> Result<Vec<ImageFilesystem>, CriError> {
        Ok(self.runtime_filesystems().await?.images)
    }

    async fn runtime_filesystems(&self) -> Result<RuntimeFilesystems, CriError> {
        Ok(convert::runtime_filesystems(self.image_filesystems_like().await?))
    }
}

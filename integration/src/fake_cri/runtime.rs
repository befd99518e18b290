//! The RuntimeService on the wire.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use hostlet_base::CgroupDriver;
use hostlet_base::{ContainerId, POD_UID_LABEL, SandboxId};
use hostlet_runtime::cri::fake::{FakeRuntime, SANDBOX_IMAGE};
use hostlet_runtime::cri::wire::{self, runtime_service_server::RuntimeService};
use hostlet_runtime::cri::{RuntimeCondition, RuntimeHandler, RuntimeHint, RuntimeService as _, StdStreams};
use hostlet_runtime::streaming;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tonic::{Request, Response, Status, async_trait};

use super::status::{Outcome, answer, missing, status};

/// Serves a runtime's sandboxes and containers.
pub(super) struct Runtimes {
    fake: FakeRuntime,
}

impl Runtimes {
    pub(super) fn new(fake: FakeRuntime) -> Self {
        Self { fake }
    }

    /// A started container has a log, possibly an empty one.
    fn open_log(&self, id: &ContainerId) -> Result<(), Status> {
        let status = self.fake.wire_container_status(id).unwrap_or_default();
        if status.log_path.is_empty() {
            return Ok(());
        }
        let opened = File::options().create(true).append(true).open(&status.log_path);
        opened
            .map(drop)
            .map_err(|error| Status::unknown(format!("failed to open {}: {error}", status.log_path)))
    }
}

fn condition(name: &str, condition: RuntimeCondition) -> wire::RuntimeCondition {
    let RuntimeCondition { status, reason, message } = condition;
    wire::RuntimeCondition { r#type: name.to_owned(), status, reason, message }
}

fn handler(handler: RuntimeHandler) -> wire::RuntimeHandler {
    let features = wire::RuntimeHandlerFeatures {
        recursive_read_only_mounts: handler.recursive_read_only_mounts,
        user_namespaces: handler.user_namespaces,
    };
    wire::RuntimeHandler { name: handler.name, features: Some(features) }
}

/// Converts a hint to a CRI event: of a pod, by the labels of a sandbox; of an object, by its ID only.
fn event(hint: RuntimeHint) -> wire::ContainerEventResponse {
    match hint {
        RuntimeHint::Pod(uid) => wire::ContainerEventResponse {
            pod_sandbox_status: Some(wire::PodSandboxStatus {
                labels: [(POD_UID_LABEL.to_owned(), uid.to_string())].into(),
                ..wire::PodSandboxStatus::default()
            }),
            ..wire::ContainerEventResponse::default()
        },
        RuntimeHint::Object(container_id) => {
            wire::ContainerEventResponse { container_id, ..wire::ContainerEventResponse::default() }
        }
    }
}

/// A map in an order of its own, as a runtime written in Go sends it: a clone would have the order of its original.
fn reordered(map: HashMap<String, String>) -> HashMap<String, String> {
    map.into_iter().collect()
}

/// Objects in an order that differs from list to list, as containerd's, which has them in a map.
fn shuffled<T>(objects: impl Iterator<Item = (String, T)>) -> Vec<T> {
    objects.collect::<HashMap<_, _>>().into_values().collect()
}

fn listed_sandboxes(answer: wire::ListPodSandboxResponse) -> wire::ListPodSandboxResponse {
    let sandboxes = answer.items.into_iter().map(|sandbox| {
        let labels = reordered(sandbox.labels);
        let annotations = reordered(sandbox.annotations);
        (sandbox.id.clone(), wire::PodSandbox { labels, annotations, ..sandbox })
    });
    wire::ListPodSandboxResponse { items: shuffled(sandboxes) }
}

fn listed_containers(answer: wire::ListContainersResponse) -> wire::ListContainersResponse {
    let containers = answer.containers.into_iter().map(|container| {
        let labels = reordered(container.labels);
        let annotations = reordered(container.annotations);
        (container.id.clone(), wire::Container { labels, annotations, ..container })
    });
    wire::ListContainersResponse { containers: shuffled(containers) }
}

#[async_trait]
impl RuntimeService for Runtimes {
    async fn version(&self, _: Request<wire::VersionRequest>) -> Outcome<wire::VersionResponse> {
        answer(self.fake.version().await, |version| wire::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: version.runtime_name,
            runtime_version: version.runtime_version,
            runtime_api_version: version.api_version,
        })
    }

    async fn status(&self, _: Request<wire::StatusRequest>) -> Outcome<wire::StatusResponse> {
        answer(self.fake.status().await, |status| wire::StatusResponse {
            status: Some(wire::RuntimeStatus {
                conditions: vec![
                    condition("RuntimeReady", status.runtime),
                    condition("NetworkReady", status.network),
                ],
            }),
            runtime_handlers: status.handlers.into_iter().map(handler).collect(),
            features: status.features.map(|features| wire::RuntimeFeatures {
                supplemental_groups_policy: features.supplemental_groups_policy,
                ..wire::RuntimeFeatures::default()
            }),
            ..wire::StatusResponse::default()
        })
    }

    /// Unimplemented if the runtime does not report it, like containerd 1.
    async fn runtime_config(
        &self,
        _: Request<wire::RuntimeConfigRequest>,
    ) -> Outcome<wire::RuntimeConfigResponse> {
        let driver = match self.fake.cgroup_driver().await.map_err(status)? {
            None => return Err(Status::unimplemented("runtime_config")),
            Some(CgroupDriver::Systemd) => wire::CgroupDriver::Systemd,
            Some(CgroupDriver::Cgroupfs) => wire::CgroupDriver::Cgroupfs,
        };
        let linux = wire::LinuxRuntimeConfiguration { cgroup_driver: driver as i32 };
        Ok(Response::new(wire::RuntimeConfigResponse { linux: Some(linux) }))
    }

    async fn update_runtime_config(
        &self,
        request: Request<wire::UpdateRuntimeConfigRequest>,
    ) -> Outcome<wire::UpdateRuntimeConfigResponse> {
        let config = request.into_inner().runtime_config.ok_or_else(|| missing("runtime_config"))?;
        let network = config.network_config.ok_or_else(|| missing("network_config"))?;
        answer(self.fake.update_runtime_config(&network.pod_cidr).await, |()| {
            wire::UpdateRuntimeConfigResponse {}
        })
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<wire::RunPodSandboxRequest>,
    ) -> Outcome<wire::RunPodSandboxResponse> {
        let request = request.into_inner();
        let config = request.config.ok_or_else(|| missing("config"))?;
        answer(self.fake.run_sandbox(config, &request.runtime_handler).await, |id| {
            wire::RunPodSandboxResponse { pod_sandbox_id: id.to_string() }
        })
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<wire::StopPodSandboxRequest>,
    ) -> Outcome<wire::StopPodSandboxResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        answer(self.fake.stop_sandbox(&id).await, |()| wire::StopPodSandboxResponse {})
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<wire::RemovePodSandboxRequest>,
    ) -> Outcome<wire::RemovePodSandboxResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        answer(self.fake.remove_sandbox(&id).await, |()| wire::RemovePodSandboxResponse {})
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<wire::PodSandboxStatusRequest>,
    ) -> Outcome<wire::PodSandboxStatusResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        answer(self.fake.sandbox_status(&id).await, |_| wire::PodSandboxStatusResponse {
            status: self.fake.wire_sandbox_status(&id),
            info: [("info".to_owned(), format!("{{\"image\":\"{SANDBOX_IMAGE}\"}}"))].into(),
            ..wire::PodSandboxStatusResponse::default()
        })
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<wire::ListPodSandboxRequest>,
    ) -> Outcome<wire::ListPodSandboxResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        answer(self.fake.sandboxes_like(filter).await, listed_sandboxes)
    }

    async fn create_container(
        &self,
        request: Request<wire::CreateContainerRequest>,
    ) -> Outcome<wire::CreateContainerResponse> {
        let request = request.into_inner();
        let config = request.config.ok_or_else(|| missing("config"))?;
        let sandbox_config = request.sandbox_config.ok_or_else(|| missing("sandbox config"))?;
        let sandbox = SandboxId::from(request.pod_sandbox_id);
        answer(self.fake.create_container(&sandbox, config, sandbox_config).await, |id| {
            wire::CreateContainerResponse { container_id: id.to_string() }
        })
    }

    async fn start_container(
        &self,
        request: Request<wire::StartContainerRequest>,
    ) -> Outcome<wire::StartContainerResponse> {
        let id = ContainerId::from(request.into_inner().container_id);
        let started = self.fake.start_container(&id).await;
        if started.is_ok() {
            self.open_log(&id)?;
        }
        answer(started, |()| wire::StartContainerResponse {})
    }

    async fn stop_container(
        &self,
        request: Request<wire::StopContainerRequest>,
    ) -> Outcome<wire::StopContainerResponse> {
        let wire::StopContainerRequest { container_id, timeout } = request.into_inner();
        let id = ContainerId::from(container_id);
        answer(self.fake.stop_container(&id, timeout).await, |()| wire::StopContainerResponse {})
    }

    async fn remove_container(
        &self,
        request: Request<wire::RemoveContainerRequest>,
    ) -> Outcome<wire::RemoveContainerResponse> {
        let id = ContainerId::from(request.into_inner().container_id);
        answer(self.fake.remove_container(&id).await, |()| wire::RemoveContainerResponse {})
    }

    async fn list_containers(
        &self,
        request: Request<wire::ListContainersRequest>,
    ) -> Outcome<wire::ListContainersResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        answer(self.fake.containers_like(filter).await, listed_containers)
    }

    async fn list_container_stats(
        &self,
        request: Request<wire::ListContainerStatsRequest>,
    ) -> Outcome<wire::ListContainerStatsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        answer(self.fake.stats_like(filter).await, |listed| listed)
    }

    async fn container_status(
        &self,
        request: Request<wire::ContainerStatusRequest>,
    ) -> Outcome<wire::ContainerStatusResponse> {
        let id = ContainerId::from(request.into_inner().container_id);
        answer(self.fake.container_status(&id).await, |_| wire::ContainerStatusResponse {
            status: self.fake.wire_container_status(&id),
            ..wire::ContainerStatusResponse::default()
        })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<wire::UpdatePodSandboxResourcesRequest>,
    ) -> Outcome<wire::UpdatePodSandboxResourcesResponse> {
        let wire::UpdatePodSandboxResourcesRequest { pod_sandbox_id, overhead, resources } =
            request.into_inner();
        let (resources, overhead) = (resources.unwrap_or_default(), overhead.unwrap_or_default());
        answer(self.fake.update_sandbox(&pod_sandbox_id.into(), resources, overhead).await, |()| {
            wire::UpdatePodSandboxResourcesResponse {}
        })
    }

    async fn update_container_resources(
        &self,
        request: Request<wire::UpdateContainerResourcesRequest>,
    ) -> Outcome<wire::UpdateContainerResourcesResponse> {
        let request = request.into_inner();
        let (id, resources) = (request.container_id.into(), request.linux.unwrap_or_default());
        answer(self.fake.update_container(&id, resources).await, |()| {
            wire::UpdateContainerResourcesResponse {}
        })
    }

    async fn reopen_container_log(
        &self,
        request: Request<wire::ReopenContainerLogRequest>,
    ) -> Outcome<wire::ReopenContainerLogResponse> {
        let id = request.into_inner().container_id.into();
        answer(self.fake.reopen_log(&id).await, |()| wire::ReopenContainerLogResponse {})
    }

    async fn checkpoint_container(
        &self,
        request: Request<wire::CheckpointContainerRequest>,
    ) -> Outcome<wire::CheckpointContainerResponse> {
        let wire::CheckpointContainerRequest { container_id, location, .. } = request.into_inner();
        let id = container_id.into();
        let written = self.fake.checkpoint_container(&id, Path::new(&location), None).await;
        answer(written, |()| wire::CheckpointContainerResponse {})
    }

    async fn exec_sync(&self, request: Request<wire::ExecSyncRequest>) -> Outcome<wire::ExecSyncResponse> {
        let wire::ExecSyncRequest { container_id, cmd, timeout } = request.into_inner();
        let timeout = Duration::from_secs(timeout.unsigned_abs());
        answer(self.fake.exec_sync(&container_id.into(), cmd, timeout).await, |done| wire::ExecSyncResponse {
            stdout: done.stdout,
            stderr: done.stderr,
            exit_code: done.exit_code,
        })
    }

    /// As scripted; input is repeated before.
    async fn exec(&self, request: Request<wire::ExecRequest>) -> Outcome<wire::ExecResponse> {
        let wire::ExecRequest { container_id, cmd, tty, stdin, stdout, stderr } = request.into_inner();
        let streams = StdStreams { stdin, stdout, stderr, tty };
        self.fake.exec(&container_id.into(), cmd.clone(), streams).await.map_err(status)?;
        let exec = self.fake.exec_of(&cmd);
        let unable = |error: std::io::Error| Status::unknown(error.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(unable)?;
        let url = format!("http://{}/exec/token", listener.local_addr().map_err(unable)?);
        Handle::current().spawn(async move {
            if let Ok((connection, _)) = listener.accept().await {
                streaming::fake::serve(connection, streams, &exec).await;
            }
        });
        Ok(Response::new(wire::ExecResponse { url }))
    }

    async fn get_container_events(
        &self,
        _: Request<wire::GetEventsRequest>,
    ) -> Outcome<BoxStream<'static, Result<wire::ContainerEventResponse, Status>>> {
        let hints = self.fake.events();
        Ok(Response::new(hints.map(|hint| hint.map(event).map_err(status)).boxed()))
    }
}

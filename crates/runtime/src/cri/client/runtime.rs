//! The RuntimeService calls and their deadlines, as upstream: `runtimeRequestTimeout` for an ordinary call, twice that for a
//! sandbox start, that plus the grace period for a stop.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hostlet_base::{CgroupDriver, ContainerId, POD_UID_LABEL, PodRef, PodUid, SandboxId};
use prost::{DecodeError, Message};

use super::super::calls::CallSubject;
use super::super::types::{
    Container, ContainerImage, ContainerStats, ContainerStatus, ExecOutput, RuntimeStatus, Sandbox,
    SandboxStatus, StdStreams, Version,
};
use super::super::wire;
use super::super::{CriError, EventStream, Operation, RuntimeService};
use super::connection::{CriClient, PATIENCE};
use super::convert;
use super::entries;
use super::settings::{self, containerd_settings};

/// The version a kubelet announces in the handshake (upstream's constant).
const KUBELET_API_VERSION: &str = "0.1.0";

/// The start of a sandbox counts as hung after this time: its network plugin may take a while.
const SANDBOX_PATIENCE: Duration = Duration::from_secs(30);

/// The longest time limit that a runtime gets. Runtimes count in nanoseconds, in 64 bits, from now on: what overflows there is over
/// at once.
const LONGEST_LIMIT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A time limit in the runtime's seconds.
fn limit_seconds(limit: Duration) -> i64 {
    i64::try_from(limit.min(LONGEST_LIMIT).as_secs()).unwrap_or(i64::MAX)
}

/// Turns NotFound into success.
fn ignore_not_found(result: Result<(), CriError>) -> Result<(), CriError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

fn pod_selector(pod: Option<&PodUid>) -> std::collections::HashMap<String, String> {
    pod.map(|uid| (POD_UID_LABEL.to_owned(), uid.to_string())).into_iter().collect()
}

fn undecodable(operation: Operation, error: &DecodeError) -> CriError {
    CriError::Malformed { operation, message: error.to_string() }
}

fn missing(operation: Operation, what: &str) -> CriError {
    CriError::Malformed { operation, message: format!("the answer has no {what}") }
}

impl CriClient {
    /// The runtime's own settings, as texts by name. Informal: they differ by runtime and version.
    pub async fn verbose_status(&self) -> Result<HashMap<String, String>, CriError> {
        let request = wire::StatusRequest { verbose: true };
        let call = async { self.runtime().status(request).await };
        Ok(self.call(Operation::Status, CallSubject::Node, call).await?.info)
    }

    /// The containers of everybody, in any state, encoded.
    async fn every_container(&self) -> Result<Vec<Bytes>, CriError> {
        let filter = Some(wire::ContainerFilter::default());
        let streamed = wire::StreamContainersRequest { filter: filter.clone() };
        entries::list(self, &entries::CONTAINERS, wire::ListContainersRequest { filter }, streamed).await
    }

    /// The same of sandboxes.
    async fn every_sandbox(&self) -> Result<Vec<Bytes>, CriError> {
        let filter = Some(wire::PodSandboxFilter::default());
        let streamed = wire::StreamPodSandboxesRequest { filter: filter.clone() };
        entries::list(self, &entries::SANDBOXES, wire::ListPodSandboxRequest { filter }, streamed).await
    }
}

#[async_trait]
impl RuntimeService for CriClient {
    async fn version(&self) -> Result<Version, CriError> {
        let request = wire::VersionRequest { version: KUBELET_API_VERSION.to_owned() };
        let call = async { self.runtime().version(request).await };
        let answer = self.call(Operation::Version, CallSubject::Node, call).await?;
        Ok(Version {
            runtime_name: answer.runtime_name,
            runtime_version: answer.runtime_version,
            api_version: answer.runtime_api_version,
        })
    }

    async fn instance(&self) -> Option<String> {
        super::instance::of(self.socket()).await
    }

    async fn status(&self) -> Result<RuntimeStatus, CriError> {
        let request = wire::StatusRequest { verbose: false };
        let call = async { self.runtime().status(request).await };
        let answer = self.call(Operation::Status, CallSubject::Node, call).await?;
        match answer.status {
            None => Err(missing(Operation::Status, "status")),
            Some(_) => Ok(convert::runtime_status(answer)),
        }
    }

    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, CriError> {
        let call = async { self.runtime().runtime_config(wire::RuntimeConfigRequest {}).await };
        match self.call(Operation::RuntimeConfig, CallSubject::Node, call).await {
            Ok(answer) => Ok(answer.linux.map(|linux| match linux.cgroup_driver() {
                wire::CgroupDriver::Systemd => CgroupDriver::Systemd,
                wire::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
            })),
            Err(CriError::Unimplemented { .. }) => {
                Ok(settings::cgroup_driver(&containerd_settings(&self.verbose_status().await?)))
            }
            Err(error) => Err(error),
        }
    }

    async fn update_runtime_config(&self, pod_cidr: &str) -> Result<(), CriError> {
        let network = wire::NetworkConfig { pod_cidr: pod_cidr.to_owned() };
        let runtime_config = Some(wire::RuntimeConfig { network_config: Some(network) });
        let request = wire::UpdateRuntimeConfigRequest { runtime_config };
        let call = async { self.runtime().update_runtime_config(request).await };
        self.call(Operation::UpdateRuntimeConfig, CallSubject::Node, call).await.map(drop)
    }

    async fn run_sandbox(
        &self,
        config: wire::PodSandboxConfig,
        handler: &str,
    ) -> Result<SandboxId, CriError> {
        let subject = config.metadata.as_ref().map_or(CallSubject::Node, |pod| {
            CallSubject::Pod(PodRef::new(&pod.namespace, &pod.name, &pod.uid))
        });
        let request =
            wire::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let call = async { self.runtime().run_pod_sandbox(request).await };
        let answer =
            self.within(Operation::RunSandbox, subject, 2 * self.timeout(), SANDBOX_PATIENCE, call).await?;
        if answer.pod_sandbox_id.is_empty() {
            return Err(missing(Operation::RunSandbox, "sandbox id"));
        }
        Ok(answer.pod_sandbox_id.into())
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = wire::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        let call = async { self.runtime().stop_pod_sandbox(request).await };
        ignore_not_found(
            self.call(Operation::StopSandbox, CallSubject::Sandbox(id.clone()), call).await.map(drop),
        )
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = wire::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        let call = async { self.runtime().remove_pod_sandbox(request).await };
        ignore_not_found(
            self.call(Operation::RemoveSandbox, CallSubject::Sandbox(id.clone()), call).await.map(drop),
        )
    }

    async fn update_sandbox(
        &self,
        id: &SandboxId,
        resources: wire::LinuxContainerResources,
        overhead: wire::LinuxContainerResources,
    ) -> Result<(), CriError> {
        let request = wire::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_string(),
            overhead: Some(overhead),
            resources: Some(resources),
        };
        let call = async { self.runtime().update_pod_sandbox_resources(request).await };
        self.call(Operation::UpdateSandbox, CallSubject::Sandbox(id.clone()), call).await.map(drop)
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, CriError> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: false };
        let call = async { self.runtime().pod_sandbox_status(request).await };
        let answer = self.call(Operation::SandboxStatus, CallSubject::Sandbox(id.clone()), call).await?;
        let status = answer.status.ok_or_else(|| missing(Operation::SandboxStatus, "status"))?;
        Ok(convert::sandbox_status(status))
    }

    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Arc<[Sandbox]>, CriError> {
        let operation = Operation::ListSandboxes;
        if pod.is_none() {
            let next = self.last_lists().sandboxes.next(&self.every_sandbox().await?);
            return next.map_err(|error| undecodable(operation, &error));
        }
        let filter =
            wire::PodSandboxFilter { label_selector: pod_selector(pod), ..wire::PodSandboxFilter::default() };
        let request = wire::ListPodSandboxRequest { filter: Some(filter) };
        let call = async { self.runtime().list_pod_sandbox(request).await };
        let answer = self.call(operation, CallSubject::Node, call).await?;
        Ok(answer.items.into_iter().filter_map(convert::sandbox).collect())
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: wire::ContainerConfig,
        sandbox_config: wire::PodSandboxConfig,
    ) -> Result<ContainerId, CriError> {
        let request = wire::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_string(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let call = async { self.runtime().create_container(request).await };
        let answer =
            self.call(Operation::CreateContainer, CallSubject::Sandbox(sandbox.clone()), call).await?;
        if answer.container_id.is_empty() {
            return Err(missing(Operation::CreateContainer, "container id"));
        }
        Ok(answer.container_id.into())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = wire::StartContainerRequest { container_id: id.to_string() };
        let call = async { self.runtime().start_container(request).await };
        self.call(Operation::StartContainer, CallSubject::Container(id.clone()), call).await.map(drop)
    }

    async fn stop_container(&self, id: &ContainerId, grace_seconds: i64) -> Result<(), CriError> {
        let grace = Duration::from_secs(u64::try_from(grace_seconds).unwrap_or(0));
        let request =
            wire::StopContainerRequest { container_id: id.to_string(), timeout: limit_seconds(grace) };
        let call = async { self.runtime().stop_container(request).await };
        let deadline = self.timeout().saturating_add(grace);
        let subject = CallSubject::Container(id.clone());
        let patience = PATIENCE.saturating_add(grace);
        ignore_not_found(
            self.within(Operation::StopContainer, subject, deadline, patience, call).await.map(drop),
        )
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = wire::RemoveContainerRequest { container_id: id.to_string() };
        let call = async { self.runtime().remove_container(request).await };
        ignore_not_found(
            self.call(Operation::RemoveContainer, CallSubject::Container(id.clone()), call).await.map(drop),
        )
    }

    async fn update_container(
        &self,
        id: &ContainerId,
        resources: wire::LinuxContainerResources,
    ) -> Result<(), CriError> {
        let request = wire::UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(resources),
            ..wire::UpdateContainerResourcesRequest::default()
        };
        let call = async { self.runtime().update_container_resources(request).await };
        self.call(Operation::UpdateContainer, CallSubject::Container(id.clone()), call).await.map(drop)
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = wire::ReopenContainerLogRequest { container_id: id.to_string() };
        let call = async { self.runtime().reopen_container_log(request).await };
        self.call(Operation::ReopenLog, CallSubject::Container(id.clone()), call).await.map(drop)
    }

    async fn checkpoint_container(
        &self,
        id: &ContainerId,
        file: &Path,
        limit: Option<Duration>,
    ) -> Result<(), CriError> {
        let deadline = self.timeout().max(limit.unwrap_or_default());
        let request = wire::CheckpointContainerRequest {
            container_id: id.to_string(),
            location: file.display().to_string(),
            timeout: limit_seconds(deadline),
        };
        let call = async { self.runtime().checkpoint_container(request).await };
        let subject = CallSubject::Container(id.clone());
        self.within(Operation::CheckpointContainer, subject, deadline, deadline, call).await.map(drop)
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, CriError> {
        let request = wire::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        let call = async { self.runtime().container_status(request).await };
        let answer = self.call(Operation::ContainerStatus, CallSubject::Container(id.clone()), call).await?;
        convert::container_status(answer.status.ok_or_else(|| missing(Operation::ContainerStatus, "status"))?)
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<ExecOutput, CriError> {
        // Whole seconds; 0 means no limit.
        let seconds = match timeout {
            Duration::MAX => 0,
            _ => limit_seconds(timeout).max(1),
        };
        let request = wire::ExecSyncRequest { container_id: id.to_string(), cmd: command, timeout: seconds };
        let call = async { self.runtime().exec_sync(request).await };
        let (deadline, patience) = (self.timeout().saturating_add(timeout), PATIENCE.saturating_add(timeout));
        let subject = CallSubject::Container(id.clone());
        match self.within(Operation::ExecSync, subject, deadline, patience, call).await {
            Ok(answer) => {
                let wire::ExecSyncResponse { stdout, stderr, exit_code } = answer;
                Ok(ExecOutput { stdout, stderr, exit_code })
            }
            // The runtime's own limit came first.
            Err(CriError::TimedOut { operation, .. }) => {
                Err(CriError::TimedOut { operation, deadline: timeout })
            }
            Err(error) => Err(error),
        }
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        streams: StdStreams,
    ) -> Result<String, CriError> {
        let StdStreams { stdin, stdout, stderr, tty } = streams;
        let container_id = id.to_string();
        let request = wire::ExecRequest { container_id, cmd: command, tty, stdin, stdout, stderr };
        let call = async { self.runtime().exec(request).await };
        Ok(self.call(Operation::Exec, CallSubject::Container(id.clone()), call).await?.url)
    }

    async fn attach(&self, id: &ContainerId, streams: StdStreams) -> Result<String, CriError> {
        let StdStreams { stdin, stdout, stderr, tty } = streams;
        let request = wire::AttachRequest { container_id: id.to_string(), stdin, tty, stdout, stderr };
        let call = async { self.runtime().attach(request).await };
        Ok(self.call(Operation::Attach, CallSubject::Container(id.clone()), call).await?.url)
    }

    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<String, CriError> {
        let port = ports.iter().copied().map(i32::from).collect();
        let request = wire::PortForwardRequest { pod_sandbox_id: id.to_string(), port };
        let call = async { self.runtime().port_forward(request).await };
        Ok(self.call(Operation::PortForward, CallSubject::Sandbox(id.clone()), call).await?.url)
    }

    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Arc<[Container]>, CriError> {
        let operation = Operation::ListContainers;
        if pod.is_none() {
            let next = self.last_lists().containers.next(&self.every_container().await?);
            return next.map_err(|error| undecodable(operation, &error));
        }
        let filter =
            wire::ContainerFilter { label_selector: pod_selector(pod), ..wire::ContainerFilter::default() };
        let request = wire::ListContainersRequest { filter: Some(filter) };
        let call = async { self.runtime().list_containers(request).await };
        let answer = self.call(operation, CallSubject::Node, call).await?;
        Ok(answer.containers.into_iter().filter_map(convert::container).collect())
    }

    async fn container_images(&self) -> Result<Vec<ContainerImage>, CriError> {
        let entries = self.every_container().await?.into_iter();
        let images = entries.map(|entry| wire::Container::decode(entry).map(convert::container_image));
        let images: Result<_, DecodeError> = images.collect();
        images.map_err(|error| undecodable(Operation::ListContainers, &error))
    }

    async fn container_stats(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerStats>, CriError> {
        let filter = wire::ContainerStatsFilter {
            label_selector: pod_selector(pod),
            ..wire::ContainerStatsFilter::default()
        };
        let request = wire::ListContainerStatsRequest { filter: Some(filter) };
        let call = async { self.runtime().list_container_stats(request).await };
        let answer = self.call(Operation::ListContainerStats, CallSubject::Node, call).await?;
        Ok(answer.stats.into_iter().filter_map(convert::container_stats).collect())
    }

    async fn sandbox_image_setting(&self) -> Result<Option<String>, CriError> {
        Ok(settings::sandbox_image(&containerd_settings(&self.verbose_status().await?)))
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, CriError> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: true };
        let call = async { self.runtime().pod_sandbox_status(request).await };
        let answer = self.call(Operation::SandboxStatus, CallSubject::Sandbox(id.clone()), call).await?;
        Ok(convert::sandbox_image(&answer.info))
    }

    async fn list_pods(&self) -> Result<HashSet<PodRef>, CriError> {
        super::pods::list(self).await
    }

    fn events(&self) -> EventStream {
        super::events::stream(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_fits_into_the_runtimes_nanoseconds() {
        assert_eq!(limit_seconds(Duration::from_secs(30)), 30);
        for limit in [9_999_999_999, i64::MAX.unsigned_abs(), u64::MAX] {
            let nanoseconds = limit_seconds(Duration::from_secs(limit)).checked_mul(1_000_000_000).unwrap();
            let now = jiff::Timestamp::now().as_nanosecond();
            assert!(i128::from(nanoseconds) + now < i128::from(i64::MAX), "{limit}");
        }
    }
}

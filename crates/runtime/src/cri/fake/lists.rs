//! Lists with the CRI's filters and the message size limit.

use std::collections::HashMap;

use hostlet_base::{POD_UID_LABEL, PodUid};
use prost::Message;

use super::super::{CriError, Operation, wire};
use super::runtime::{FakeRuntime, Request};
use super::view;

type Labels = HashMap<String, String>;

/// The image of every sandbox.
pub const SANDBOX_IMAGE: &str = "registry.k8s.io/pause:3.10";

/// Whether `labels` match `selector`.
fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The pod in a selector, so that faults of a pod apply to its lists.
fn pod_of(selector: &Labels) -> Option<PodUid> {
    selector.get(POD_UID_LABEL).map(|uid| uid.as_str().into())
}

pub(super) fn selector_of(pod: Option<&PodUid>) -> Labels {
    pod.map(|uid| (POD_UID_LABEL.to_owned(), uid.to_string())).into_iter().collect()
}

fn sandbox_matches(filter: &wire::PodSandboxFilter, sandbox: &wire::PodSandbox) -> bool {
    (filter.id.is_empty() || sandbox.id.starts_with(&filter.id))
        && filter.state.as_ref().is_none_or(|filter| filter.state == sandbox.state)
        && selects(&filter.label_selector, &sandbox.labels)
}

fn container_matches(filter: &wire::ContainerFilter, container: &wire::Container) -> bool {
    (filter.id.is_empty() || container.id.starts_with(&filter.id))
        && filter.state.as_ref().is_none_or(|filter| filter.state == container.state)
        && (filter.pod_sandbox_id.is_empty() || container.pod_sandbox_id == filter.pod_sandbox_id)
        && selects(&filter.label_selector, &container.labels)
}

fn stats_matches(filter: &wire::ContainerStatsFilter, container: &wire::Container) -> bool {
    (filter.id.is_empty() || container.id.starts_with(&filter.id))
        && (filter.pod_sandbox_id.is_empty() || container.pod_sandbox_id == filter.pod_sandbox_id)
        && selects(&filter.label_selector, &container.labels)
}

/// The message, or the error of Go's gRPC if it is larger than `limit`.
fn sent<T: Message>(operation: Operation, limit: usize, message: T) -> Result<T, CriError> {
    let size = message.encoded_len();
    if size <= limit {
        return Ok(message);
    }
    let message = format!("grpc: trying to send message larger than max ({size} vs. {limit})");
    Err(CriError::TooLarge { operation, message })
}

impl FakeRuntime {
    /// The sandboxes that match `filter`, as CRI messages. A logged call.
    pub async fn sandboxes_like(
        &self,
        filter: wire::PodSandboxFilter,
    ) -> Result<wire::ListPodSandboxResponse, CriError> {
        let operation = Operation::ListSandboxes;
        let request = Request::new(operation, pod_of(&filter.label_selector), "");
        self.call(request, move |world, _| {
            let all = world.sandboxes.iter().map(|(id, record)| view::sandbox(id, record));
            let items = all.filter(|sandbox| sandbox_matches(&filter, sandbox)).collect();
            sent(operation, world.message_limit, wire::ListPodSandboxResponse { items })
        })
        .await
    }

    /// The containers that match `filter`, as CRI messages. A logged call.
    pub async fn containers_like(
        &self,
        filter: wire::ContainerFilter,
    ) -> Result<wire::ListContainersResponse, CriError> {
        let operation = Operation::ListContainers;
        let request = Request::new(operation, pod_of(&filter.label_selector), "");
        self.call(request, move |world, _| {
            let all = world.containers.iter().map(|(id, record)| view::container(id, record));
            let containers = all.filter(|container| container_matches(&filter, container)).collect();
            sent(operation, world.message_limit, wire::ListContainersResponse { containers })
        })
        .await
    }

    /// The stats of the containers that match `filter`, as CRI messages. A logged call.
    pub async fn stats_like(
        &self,
        filter: wire::ContainerStatsFilter,
    ) -> Result<wire::ListContainerStatsResponse, CriError> {
        let operation = Operation::ListContainerStats;
        let request = Request::new(operation, pod_of(&filter.label_selector), "");
        self.call(request, move |world, _| {
            let all = world.containers.iter();
            let matching = all.filter(|(id, record)| stats_matches(&filter, &view::container(id, record)));
            let stats = matching.map(|(id, record)| view::container_stats(id, record, world)).collect();
            sent(operation, world.message_limit, wire::ListContainerStatsResponse { stats })
        })
        .await
    }

    /// The filesystem of the images, as CRI message. A logged call.
    pub async fn image_filesystems_like(&self) -> Result<wire::ImageFsInfoResponse, CriError> {
        self.call(Request::new(Operation::ImageFsInfo, None, ""), |world, now| {
            let usage = wire::FilesystemUsage {
                timestamp: world.clock.at(now),
                fs_id: Some(wire::FilesystemIdentifier { mountpoint: world.image_place.clone() }),
                used_bytes: Some(wire::UInt64Value { value: 5_000_000 }),
                inodes_used: Some(wire::UInt64Value { value: 100 * world.images.list().len() as u64 }),
            };
            Ok(wire::ImageFsInfoResponse {
                image_filesystems: vec![usage.clone()],
                container_filesystems: vec![usage],
            })
        })
        .await
    }
}

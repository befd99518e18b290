//! Lists the runtime's pods without a single large message: containerd streams its containers, including sandboxes, one per
//! message. Other runtimes are queried once per state.

use std::collections::HashSet;

use containerd_client::services::v1::ListContainersRequest;
use containerd_client::services::v1::containers_client::ContainersClient;
use hostlet_base::{POD_UID_LABEL, PodRef};
use tonic::{Response, Status};

use super::super::calls::CallSubject;
use super::super::containerd::request;
use super::super::{CriError, Operation, wire};
use super::connection::{CriClient, MAX_MESSAGE_BYTES};
use super::convert::pod_of;

const SANDBOX_STATES: [wire::PodSandboxState; 2] =
    [wire::PodSandboxState::SandboxReady, wire::PodSandboxState::SandboxNotready];

const CONTAINER_STATES: [wire::ContainerState; 4] = [
    wire::ContainerState::ContainerCreated,
    wire::ContainerState::ContainerRunning,
    wire::ContainerState::ContainerExited,
    wire::ContainerState::ContainerUnknown,
];

/// See [`RuntimeService::list_pods`](super::super::RuntimeService::list_pods).
pub(super) async fn list(client: &CriClient) -> Result<HashSet<PodRef>, CriError> {
    let streamed = client.call(Operation::ListPods, CallSubject::Node, stream(client)).await;
    match streamed {
        Err(CriError::Unimplemented { .. }) => by_state(client).await,
        other => other,
    }
}

async fn stream(client: &CriClient) -> Result<Response<HashSet<PodRef>>, Status> {
    let mut containers = ContainersClient::new(client.channel()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    // containerd's containers have the labels of the CRI's.
    let filters = vec![format!("labels.\"{POD_UID_LABEL}\"")];
    let mut stream = containers.list_stream(request(ListContainersRequest { filters })).await?.into_inner();
    let mut pods = HashSet::new();
    while let Some(message) = stream.message().await? {
        pods.extend(message.container.and_then(|container| pod_of(&container.labels)));
    }
    Ok(Response::new(pods))
}

async fn by_state(client: &CriClient) -> Result<HashSet<PodRef>, CriError> {
    let mut pods = HashSet::new();
    for state in SANDBOX_STATES {
        let state = Some(wire::PodSandboxStateValue { state: state as i32 });
        let filter = Some(wire::PodSandboxFilter { state, ..wire::PodSandboxFilter::default() });
        let call = async { client.runtime().list_pod_sandbox(wire::ListPodSandboxRequest { filter }).await };
        let answer = client.call(Operation::ListSandboxes, CallSubject::Node, call).await;
        let sandboxes = fitting(answer)?.map(|answer| answer.items).unwrap_or_default();
        pods.extend(sandboxes.iter().filter_map(|sandbox| pod_of(&sandbox.labels)));
    }
    for state in CONTAINER_STATES {
        let state = Some(wire::ContainerStateValue { state: state as i32 });
        let filter = Some(wire::ContainerFilter { state, ..wire::ContainerFilter::default() });
        let call = async { client.runtime().list_containers(wire::ListContainersRequest { filter }).await };
        let answer = client.call(Operation::ListContainers, CallSubject::Node, call).await;
        let containers = fitting(answer)?.map(|answer| answer.containers).unwrap_or_default();
        pods.extend(containers.iter().filter_map(|container| pod_of(&container.labels)));
    }
    Ok(pods)
}

/// The response; `None` if it is too large for one message.
fn fitting<T>(answer: Result<T, CriError>) -> Result<Option<T>, CriError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(CriError::TooLarge { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

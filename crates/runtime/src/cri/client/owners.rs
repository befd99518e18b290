//! Looks up what the runtime has for an ID, to find the owner of something on the host.

use std::collections::HashSet;

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{
    DeleteContainerRequest, DeleteTaskRequest, GetContainerRequest, GetRequest, KillRequest,
};
use containerd_client::types::v1::Status;
use tonic::Code;

use super::super::calls::CallSubject;
use super::super::containerd::request;
use super::super::{CriError, Operation, wire};
use super::connection::{CriClient, MAX_MESSAGE_BYTES};

/// The label by which containerd distinguishes the CRI's containers from others in the namespace.
const KIND: &str = "io.cri-containerd.kind";

/// The signal that no process can ignore.
const SIGKILL: u32 = nix::sys::signal::Signal::SIGKILL as u32;

/// What containerd has for an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It was removed, or never existed.
    Nothing,
    /// A sandbox or container of the CRI.
    OfCri,
    /// A container of someone else.
    OfOthers,
}

/// A task of containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredTask {
    /// Its process may run.
    Alive,
    /// Its process has ended.
    Stopped,
}

impl CriClient {
    /// The IDs of all sandboxes and containers that the CRI lists, with or without a pod's labels.
    pub async fn listed_ids(&self) -> Result<HashSet<String>, CriError> {
        let call = async { self.runtime().list_pod_sandbox(wire::ListPodSandboxRequest::default()).await };
        let sandboxes = self.call(Operation::ListSandboxes, CallSubject::Node, call).await?;
        let call = async { self.runtime().list_containers(wire::ListContainersRequest::default()).await };
        let containers = self.call(Operation::ListContainers, CallSubject::Node, call).await?;
        let mut ids: HashSet<String> = sandboxes.items.into_iter().map(|sandbox| sandbox.id).collect();
        ids.extend(containers.containers.into_iter().flat_map(|c| [c.id, c.pod_sandbox_id]));
        Ok(ids)
    }

    /// What containerd has for this ID. Fails with other runtimes.
    pub async fn stored(&self, id: &str) -> Result<Stored, CriError> {
        let call = async {
            let message = request(GetContainerRequest { id: id.to_owned() });
            self.containers().get(message).await
        };
        match self.call(Operation::StoredContainer, CallSubject::Container(id.into()), call).await {
            Ok(answer) => {
                let is_cris = answer.container.is_some_and(|stored| stored.labels.contains_key(KIND));
                Ok(if is_cris { Stored::OfCri } else { Stored::OfOthers })
            }
            Err(error) if error.is_not_found() => Ok(Stored::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Deletes a container without a running task from containerd, which then removes its resources. An unknown ID is success.
    pub async fn forget_stored(&self, id: &str) -> Result<(), CriError> {
        let call = async {
            let message = request(DeleteContainerRequest { id: id.to_owned() });
            match self.containers().delete(message).await {
                Err(status) if status.code() == Code::NotFound => Ok(tonic::Response::new(())),
                other => other,
            }
        };
        self.call(Operation::StoredContainer, CallSubject::Container(id.into()), call).await
    }

    /// The task that containerd has for this ID, if any. Fails with other runtimes.
    pub async fn stored_task(&self, id: &str) -> Result<Option<StoredTask>, CriError> {
        let call = async {
            let message = request(GetRequest { container_id: id.to_owned(), exec_id: String::new() });
            self.tasks().get(message).await
        };
        match self.call(Operation::StoredTask, CallSubject::Container(id.into()), call).await {
            Ok(answer) => {
                let has_stopped =
                    answer.process.is_some_and(|process| process.status == Status::Stopped as i32);
                Ok(Some(if has_stopped { StoredTask::Stopped } else { StoredTask::Alive }))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Kills what runs in a task and deletes it. An unknown ID is success.
    pub async fn delete_task(&self, id: &str) -> Result<(), CriError> {
        let kill = async {
            let (container_id, exec_id) = (id.to_owned(), String::new());
            let message = KillRequest { container_id, exec_id, signal: SIGKILL, all: true };
            // One that has exited cannot be killed, and is deleted all the same.
            let _ = self.tasks().kill(request(message)).await;
            let message = DeleteTaskRequest { container_id: id.to_owned() };
            match self.tasks().delete(request(message)).await {
                Err(status) if status.code() != Code::NotFound => Err(status),
                Ok(_) | Err(_) => Ok(tonic::Response::new(())),
            }
        };
        self.call(Operation::StoredTask, CallSubject::Container(id.into()), kill).await
    }

    fn tasks(&self) -> TasksClient<tonic::transport::Channel> {
        TasksClient::new(self.channel()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    fn containers(&self) -> ContainersClient<tonic::transport::Channel> {
        ContainersClient::new(self.channel()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }
}

//! The gRPC client of one instance of a device plugin. Owns the connection and the deadlines. Never retries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hostlet_plugins::connect;
use hostlet_proto::device_plugin::device_plugin_client::DevicePluginClient;
use hostlet_proto::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, Device as WireDevice, Empty, ListAndWatchResponse,
    PreStartContainerRequest, PreferredAllocationRequest,
};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use super::{CallError, DevicePlugin, PluginOptions};
use crate::choice::Question;
use crate::device::{Device, DeviceIds, DeviceList, Health};

/// How long to wait for a connection (upstream `dial`).
const DIAL: Duration = Duration::from_secs(10);

/// Deadline of a question that needs no work of the plugin.
const ANSWER: Duration = Duration::from_secs(10);

/// Deadline of `Allocate`, which may have to prepare hardware. Upstream waits forever.
const ALLOCATE: Duration = Duration::from_secs(120);

/// Deadline of `PreStartContainer` (upstream `KubeletPreStartContainerRPCTimeoutInSecs`).
const PRE_START: Duration = Duration::from_secs(30);

/// The largest message of a plugin: a list of some hundred thousand devices.
const MAX_MESSAGE: usize = 64 << 20;

/// A connection to an instance of a plugin. Clones share it.
#[derive(Clone)]
pub(crate) struct GrpcPlugin {
    socket: PathBuf,
    client: DevicePluginClient<Channel>,
}

/// The lists of devices that a plugin sends.
pub(crate) struct DeviceStream {
    socket: PathBuf,
    stream: Streaming<ListAndWatchResponse>,
}

impl GrpcPlugin {
    /// Connects to the plugin on `socket`.
    pub(crate) async fn connect(socket: &Path) -> Result<Self, CallError> {
        let connecting = timeout(DIAL, connect(socket));
        let channel = connecting.await.map_err(|_| CallError::timed_out())?;
        let channel =
            channel.map_err(|error| CallError::new(&Status::from_error(Box::new(error)), socket))?;
        let client = DevicePluginClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        Ok(Self { socket: socket.to_owned(), client })
    }

    /// What the plugin wants to be asked.
    pub(crate) async fn options(&self) -> Result<PluginOptions, CallError> {
        let mut client = self.client.clone();
        let options = self.answer(ANSWER, client.get_device_plugin_options(Empty {})).await?;
        let preferences = options.get_preferred_allocation_available;
        Ok(PluginOptions { pre_start: options.pre_start_required, preferences })
    }

    /// Begins to follow its devices. The first list may take as long as the plugin likes.
    pub(crate) async fn devices(&self) -> Result<DeviceStream, CallError> {
        let mut client = self.client.clone();
        let stream = client.list_and_watch(Empty {}).await;
        let stream = stream.map_err(|status| CallError::new(&status, &self.socket))?;
        Ok(DeviceStream { socket: self.socket.clone(), stream: stream.into_inner() })
    }

    async fn answer<A>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<Response<A>, Status>>,
    ) -> Result<A, CallError> {
        match timeout(deadline, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(CallError::new(&status, &self.socket)),
            Err(_) => Err(CallError::timed_out()),
        }
    }
}

impl DeviceStream {
    /// The next list; `None` once the plugin ended the stream. Cancel-safe: a list is taken from the stream only when returned.
    pub(crate) async fn next(&mut self) -> Result<Option<DeviceList>, CallError> {
        let next = self.stream.message().await;
        let next = next.map_err(|status| CallError::new(&status, &self.socket))?;
        Ok(next.map(|response| response.devices.into_iter().map(read).collect()))
    }
}

/// A device as the plugin reports it. Of two with one ID the last counts, as upstream.
fn read(device: WireDevice) -> (String, Device) {
    // Upstream's comparison: any other text is not healthy.
    let health = if device.health == "Healthy" { Health::Healthy } else { Health::Unhealthy };
    let nodes = device.topology.into_iter().flat_map(|topology| topology.nodes);
    (device.id, Device { health, nodes: nodes.map(|node| node.id).collect() })
}

fn list(ids: &DeviceIds) -> Vec<String> {
    ids.iter().cloned().collect()
}

#[async_trait]
impl DevicePlugin for GrpcPlugin {
    async fn preferred(&self, question: &Question) -> Result<DeviceIds, CallError> {
        let request = ContainerPreferredAllocationRequest {
            available_device_i_ds: list(&question.available),
            must_include_device_i_ds: list(&question.must_include),
            allocation_size: i32::try_from(question.size).unwrap_or(i32::MAX),
        };
        let request = PreferredAllocationRequest { container_requests: vec![request] };
        let mut client = self.client.clone();
        let response = self.answer(ANSWER, client.get_preferred_allocation(request)).await?;
        let first = response.container_responses.into_iter().next();
        Ok(first.into_iter().flat_map(|response| response.device_i_ds).collect())
    }

    async fn allocate(&self, ids: &DeviceIds) -> Result<Option<ContainerAllocateResponse>, CallError> {
        let request = ContainerAllocateRequest { devices_ids: list(ids) };
        let mut client = self.client.clone();
        let request = AllocateRequest { container_requests: vec![request] };
        let response = self.answer(ALLOCATE, client.allocate(request)).await?;
        Ok(response.container_responses.into_iter().next())
    }

    async fn pre_start(&self, ids: &DeviceIds) -> Result<(), CallError> {
        let mut client = self.client.clone();
        let request = PreStartContainerRequest { devices_ids: list(ids) };
        self.answer(PRE_START, client.pre_start_container(request)).await.map(drop)
    }
}

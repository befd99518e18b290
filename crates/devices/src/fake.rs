//! A scripted device plugin for tests: a gRPC server on a socket in the directory of device plugins. Registers only when it is told to.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use hostlet_plugins::connect;
use hostlet_plugins::fake::SocketServer;
use hostlet_proto::device_plugin::device_plugin_server::{DevicePlugin, DevicePluginServer};
use hostlet_proto::device_plugin::registration_client::RegistrationClient;
use hostlet_proto::device_plugin::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePluginOptions, DeviceSpec, Empty,
    ListAndWatchResponse, NumaNode, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, RegisterRequest, TopologyInfo,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

/// What a plugin does when it is called, and what it was asked.
#[derive(Default)]
pub struct Script {
    /// What it wants to be asked.
    pub options: DevicePluginOptions,
    /// Calls of these names fail with this.
    pub failures: BTreeMap<&'static str, Status>,
    /// Calls of these names are never answered.
    pub hangs: BTreeSet<&'static str>,
    /// The devices that it prefers.
    pub preferred: Vec<String>,
    /// Whether it gives CDI devices in place of device files.
    pub cdi: bool,
    /// The names of the calls, in order.
    pub calls: Vec<&'static str>,
    /// The devices of each call of `Allocate`.
    pub allocated: Vec<Vec<String>>,
    /// The devices of each call of `PreStartContainer`.
    pub prepared: Vec<Vec<String>>,
}

/// A plugin. Dropping it ends it like SIGKILL: the socket remains.
pub struct FakeDevicePlugin {
    resource: String,
    socket: PathBuf,
    /// What it does.
    pub script: Arc<Mutex<Script>>,
    devices: watch::Sender<Vec<Device>>,
    _server: SocketServer,
}

#[derive(Clone)]
struct Served {
    resource: String,
    script: Arc<Mutex<Script>>,
    /// Its lists end with the plugin: connections survive the listener.
    devices: watch::Receiver<Vec<Device>>,
}

/// A healthy device that is close to these NUMA nodes.
pub fn device(id: &str, nodes: &[i64]) -> Device {
    let nodes: Vec<NumaNode> = nodes.iter().map(|node| NumaNode { id: *node }).collect();
    let topology = (!nodes.is_empty()).then_some(TopologyInfo { nodes });
    Device { id: id.to_owned(), health: "Healthy".to_owned(), topology }
}

/// Healthy devices without NUMA nodes.
pub fn devices(ids: &[&str]) -> Vec<Device> {
    ids.iter().map(|id| device(id, &[])).collect()
}

impl FakeDevicePlugin {
    /// Listens on the socket of this name in `dir`, in place of what is there, for a resource with these devices. Must be called in a
    /// tokio runtime.
    pub fn start(dir: &Path, socket: &str, resource: &str, devices: Vec<Device>) -> io::Result<Self> {
        let socket = dir.join(socket);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let (devices, listed) = watch::channel(devices);
        let served = Served { resource: resource.to_owned(), script: Arc::default(), devices: listed };
        let server = SocketServer::start(&socket, DevicePluginServer::new(served.clone()))?;
        let Served { resource, script, .. } = served;
        Ok(Self { resource, socket, script, devices, _server: server })
    }

    /// Registers at the kubelet's socket in the same directory.
    pub async fn register(&self) -> Result<(), Status> {
        let name = self.socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let request = RegisterRequest {
            version: "v1beta1".to_owned(),
            endpoint: name,
            resource_name: self.resource.clone(),
            options: Some(self.script.lock().options),
        };
        register(&self.socket.with_file_name("kubelet.sock"), request).await
    }

    /// Lists these devices from now on.
    pub fn lists(&self, devices: Vec<Device>) {
        self.devices.send_replace(devices);
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Calls `Register`.
pub async fn register(kubelet: &Path, request: RegisterRequest) -> Result<(), Status> {
    let channel = connect(kubelet).await.map_err(|error| Status::from_error(Box::new(error)))?;
    RegistrationClient::new(channel).register(request).await.map(drop)
}

/// What a container is given for these devices: a file for each, a variable with all, and their directory.
fn response(resource: &str, request: &ContainerAllocateRequest, cdi: bool) -> ContainerAllocateResponse {
    let name = resource.rsplit('/').next().unwrap_or_default().to_uppercase();
    let file = |id: &String| DeviceSpec {
        container_path: format!("/dev/{id}"),
        host_path: "/dev/null".to_owned(),
        permissions: "rw".to_owned(),
    };
    let cdi_device = |id: &String| CdiDevice { name: format!("{resource}={id}") };
    let ids = &request.devices_ids;
    ContainerAllocateResponse {
        envs: [(format!("{name}_DEVICES"), ids.join(","))].into(),
        devices: if cdi { Vec::new() } else { ids.iter().map(file).collect() },
        cdi_devices: if cdi { ids.iter().map(cdi_device).collect() } else { Vec::new() },
        ..ContainerAllocateResponse::default()
    }
}

impl Served {
    async fn called(&self, name: &'static str) -> Result<(), Status> {
        let (hangs, failure) = {
            let mut script = self.script.lock();
            script.calls.push(name);
            (script.hangs.contains(name), script.failures.get(name).cloned())
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        failure.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl DevicePlugin for Served {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        self.called("GetDevicePluginOptions").await?;
        Ok(Response::new(self.script.lock().options))
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<BoxStream<ListAndWatchResponse>>, Status> {
        self.called("ListAndWatch").await?;
        let mut devices = self.devices.clone();
        devices.mark_changed();
        let lists = stream::unfold(devices, |mut devices| async move {
            devices.changed().await.ok()?;
            let list = devices.borrow_and_update().clone();
            Some((Ok(ListAndWatchResponse { devices: list }), devices))
        });
        Ok(Response::new(lists.boxed()))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        self.called("GetPreferredAllocation").await?;
        let preferred = self.script.lock().preferred.clone();
        let answer = |_| ContainerPreferredAllocationResponse { device_i_ds: preferred.clone() };
        let container_responses = request.into_inner().container_requests.into_iter().map(answer).collect();
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        self.called("Allocate").await?;
        let requests = request.into_inner().container_requests;
        let mut script = self.script.lock();
        script.allocated.extend(requests.iter().map(|request| request.devices_ids.clone()));
        let container_responses =
            requests.iter().map(|request| response(&self.resource, request, script.cdi)).collect();
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        self.called("PreStartContainer").await?;
        self.script.lock().prepared.push(request.into_inner().devices_ids);
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

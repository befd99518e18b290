//! A CSI driver for tests: volumes are directories, or ext4 images on loop devices, in a directory that the drivers of all nodes share.
//! Really mounts, so it needs root. Does what a driver must do, and says in its journal what a kubelet did wrong. Calls go wrong as
//! scripted (`hostlet_integration::csi::Faults`).

mod calls;
mod controller;
mod host;
mod identity;
mod node;
mod options;
mod published;
mod volumes;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hostlet_plugins::PluginInfo;
use hostlet_plugins::fake::FakePlugin;
use hostlet_proto::csi::controller_server::ControllerServer;
use hostlet_proto::csi::identity_server::IdentityServer;
use hostlet_proto::csi::node_server::NodeServer;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::calls::Calls;
use crate::controller::Controller;
use crate::identity::Identity;
use crate::node::Node;
use crate::options::Options;
use crate::volumes::Volumes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Arc::new(Options::read()?);
    let volumes = Arc::new(Volumes::open(&options.volumes)?);
    volumes.add_node(&options.node_id)?;
    let calls = Arc::new(Calls::new(options.faults.as_deref(), options.journal.as_deref())?);
    let listener = listen(&options.endpoint)?;
    let identity = Identity { options: options.clone(), calls: calls.clone() };
    let controller = Controller { options: options.clone(), calls: calls.clone(), volumes: volumes.clone() };
    let node = Node::new(options.clone(), calls, volumes)?;
    let server = Server::builder()
        .add_service(IdentityServer::new(identity))
        .add_service(ControllerServer::new(controller))
        .add_service(NodeServer::new(node))
        .serve_with_incoming(UnixListenerStream::new(listener));
    // Registers as long as it lives.
    let plugin = options.registration.as_deref().map(|socket| register(&options, socket)).transpose()?;
    let mut end = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    tokio::select! {
        // Cancel-safe: the process ends after either.
        served = server => served.context("serving")?,
        // Cancel-safe: a signal is consumed only when returned.
        _ = end.recv() => {}
    }
    if let Some(plugin) = plugin {
        plugin.stop().context("removing the registration socket")?;
    }
    remove(&options.endpoint)
}

fn register(options: &Options, socket: &Path) -> Result<FakePlugin> {
    create_parent(socket)?;
    let info = PluginInfo {
        r#type: "CSIPlugin".to_owned(),
        name: options.name.clone(),
        endpoint: options.endpoint.display().to_string(),
        supported_versions: vec!["1.0.0".to_owned()],
    };
    FakePlugin::start(socket, info).with_context(|| format!("listening on {}", socket.display()))
}

fn listen(socket: &Path) -> Result<UnixListener> {
    create_parent(socket)?;
    remove(socket)?;
    UnixListener::bind(socket).with_context(|| format!("listening on {}", socket.display()))
}

fn create_parent(socket: &Path) -> Result<()> {
    let dir = socket.parent().context("a socket without a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))
}

fn remove(socket: &Path) -> Result<()> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", socket.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

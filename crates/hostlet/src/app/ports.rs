//! The ports of this node: the health endpoint and the node's API. A first start opens them late, because a port that another
//! kubelet holds must not hide why that start is refused.

use hostlet_config::Config;
use hostlet_serve::node_api::Healthz;
use tokio::net::TcpListener;

use super::error::AppError;
use super::node_api::{AboutProcess, ApiClients, NodeApiSide};
use super::parts::Parts;
use super::tasks::{Stage, Tasks};

/// The ports before they are open.
pub(super) struct Ports {
    /// `None` on a standalone node.
    pub(super) clients: Option<ApiClients>,
    pub(super) about: AboutProcess,
}

/// The open ports, which nobody answers yet.
pub(super) struct OpenPorts {
    healthz: Option<TcpListener>,
    node_api: Option<NodeApiSide>,
    about: AboutProcess,
}

impl Ports {
    /// Opens them. Blocks.
    pub(super) fn open(self, config: &Config) -> Result<OpenPorts, AppError> {
        let healthz = match config.healthz {
            Some(address) => Some(Healthz::bind(address)?),
            None => None,
        };
        let node_api = NodeApiSide::open(config, self.clients)?;
        Ok(OpenPorts { healthz, node_api, about: self.about })
    }
}

impl OpenPorts {
    /// Answers on them.
    pub(super) fn serve(self, config: &Config, parts: &Parts, tasks: &mut Tasks) {
        let devices = parts.devices.clone();
        let device_plugins = move || devices.socket_problem();
        let health = Healthz::new(tasks.heartbeats().clone(), device_plugins, parts.started);
        if let Some(listener) = self.healthz {
            let health = health.clone();
            tasks.spawn(Stage::State, "health endpoint", |cancel| health.run(listener, cancel));
        }
        if let Some(node_api) = self.node_api {
            node_api.start(config, parts, self.about, health, tasks);
        }
    }
}

//! The sockets for agents of this host: the pod resources API and the Pods API.

use std::sync::Arc;

use hostlet_config::Config;
use hostlet_devices::Devices;
use hostlet_dra::Claims;
use hostlet_engine::grants::NumaGrants;
use hostlet_engine::source::SourceState;
use hostlet_observe::status::PodDirectory;
use hostlet_pod::ApiState;
use hostlet_serve::pod_resources::{NodeResourcesSource, PodResourcesServer, PodResourcesSettings};
use hostlet_serve::pods_api::{PodsApiServer, PodsApiSettings, Readiness};
use hostlet_telemetry::Metrics;
use tokio::sync::watch;

use super::paths::{POD_RESOURCES, PODS_API};
use super::tasks::{Stage, Tasks};

/// What agents are told of.
pub(super) struct AgentInputs<'a> {
    pub(super) pods: &'a PodDirectory,
    pub(super) devices: &'a Devices,
    pub(super) numa: &'a NumaGrants,
    pub(super) claims: &'a Claims,
    pub(super) manifests: watch::Receiver<SourceState>,
    pub(super) api: watch::Receiver<ApiState>,
}

/// Starts to serve agents.
pub(super) fn serve_agents(config: &Config, inputs: AgentInputs<'_>, metrics: &Metrics, tasks: &mut Tasks) {
    let AgentInputs { pods, devices, numa, claims, manifests, api } = inputs;
    let source = NodeResourcesSource {
        pods: pods.clone(),
        devices: devices.clone(),
        numa: numa.clone(),
        claims: claims.clone(),
    };
    let settings = PodResourcesSettings { dir: config.root_dir.join(POD_RESOURCES) };
    let resources = PodResourcesServer::new(settings, Arc::new(source), metrics);
    tasks.spawn(Stage::Publish, "pod resources API", |cancel| resources.run(cancel));

    if !config.pods_api {
        return;
    }
    let is_ready: Readiness = Arc::new(move || manifests.borrow().ready && api.borrow().ready);
    let settings = PodsApiSettings { dir: config.root_dir.join(PODS_API) };
    let pods = PodsApiServer::new(settings, pods.clone(), is_ready, metrics);
    tasks.spawn(Stage::Publish, "Pods API", |cancel| pods.run(cancel));
}

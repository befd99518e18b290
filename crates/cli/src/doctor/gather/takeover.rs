//! Which running pods a takeover would end, or take something from: by the manifests, the API server and the volumes on this host.

use std::collections::HashSet;
use std::time::Duration;

use hostlet_base::{PodRef, PodUid, RescanRequester, architecture, error_chain};
use hostlet_cluster::api::{ClientOptions, Connections, Credentials, CredentialsSource, Purpose, connect};
use hostlet_cluster::api_pods;
use hostlet_config::Config;
use hostlet_devices::has_checkpoint;
use hostlet_engine::admission::{NodeView, unrunnable};
use hostlet_engine::ownership::Unrunnable;
use hostlet_engine::source::{self, SourceConfig, SourceState};
use hostlet_host::Machine;
use hostlet_net::http::ProxyEnvironment;
use hostlet_net::tls::CertificateStore;
use hostlet_pod::ApiState;
use hostlet_volume::unknown_plugins;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::facts::{Seen, Unseen};
use super::Place;

/// Deadline for the manifests and the API server: whoever waits sits before a terminal.
const DEADLINE: Duration = Duration::from_secs(5);

/// The `running` pods that hostlet could not run. Pods of `staticPodURL` are not looked at.
pub(super) async fn takeover(place: &Place, config: &Config, running: &[PodRef]) -> Seen<Vec<Unrunnable>> {
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for pod in running {
        let plugins = unknown_plugins(&config.root_dir, &pod.uid);
        let plugins = plugins.map_err(|error| Unseen(error_chain(&error)))?;
        if !plugins.is_empty() {
            found.push(Unrunnable::of_plugins(pod.clone(), &plugins));
        }
    }
    let (manifests, api) = read_sources(config).await?;
    let node = NodeView {
        is_standalone: config.cluster.is_none(),
        app_armor: Machine::read(&place.root, &config.root_dir).is_ok_and(|machine| machine.app_armor),
        ..NodeView::default()
    };
    let uids: HashSet<PodUid> = running.iter().map(|pod| pod.uid.clone()).collect();
    let named: HashSet<PodUid> = found.iter().map(|one| one.pod.uid.clone()).collect();
    let has_devices = has_checkpoint(&config.root_dir.join("device-plugins"));
    let others = unrunnable(&manifests, &api, &uids, &config.pods.allowed_unsafe_sysctls, &node, has_devices);
    found.extend(others.into_iter().filter(|one| !named.contains(&one.pod.uid)));
    Ok(found)
}

/// Reads the manifests and the API server once.
async fn read_sources(config: &Config) -> Seen<(SourceState, ApiState)> {
    let cancel = CancellationToken::new();
    let files = SourceConfig {
        path: config.sources.static_pod_path.clone(),
        node_name: config.node_name.clone(),
        check_frequency: config.sources.file_check_frequency,
        rescan: RescanRequester::default().subscribe(),
        objects: None,
        url: None,
    };
    let (manifests_in, mut manifests) = watch::channel(SourceState::default());
    let (api_in, mut api) = watch::channel(ApiState::default());
    let reading = async {
        match &config.cluster {
            None => api_in.send_modify(|state| state.ready = true),
            Some(joined) => {
                let source = CredentialsSource::new(joined.kubeconfig.clone())
                    .with_proxies(ProxyEnvironment::of_process())
                    .with_store(CertificateStore::of_client(&joined.cert_dir));
                let (keeper, credentials) = Credentials::new(source);
                let connection = ClientOptions {
                    user_agent: format!("hostlet/v{} (linux/{})", env!("CARGO_PKG_VERSION"), architecture()),
                    limit: None,
                    purpose: Purpose::Pods,
                    connections: Connections::default(),
                };
                let client =
                    connect(&connection, credentials).map_err(|error| Unseen(error_chain(&error)))?;
                let pods =
                    api_pods::run(client, config.node_name.clone(), Vec::new(), api_in, cancel.clone());
                tokio::join!(keeper.run(cancel.clone()), pods);
            }
        }
        std::future::pending::<Seen<()>>().await
    };
    let known = async {
        // An error means that the source has ended, which it does not.
        let _ = manifests.wait_for(|manifests| manifests.ready).await;
        let _ = api.wait_for(|api| api.ready).await;
    };
    tokio::select! {
        // Cancel-safe, all: they only read.
        known = timeout(DEADLINE, known) => known.map_err(|_| Unseen(
            "the API server does not say what the running pods use, without which they cannot be taken over".to_owned(),
        ))?,
        failed = reading => failed?,
        () = source::run(files, Vec::new(), manifests_in, cancel.clone()) => {}
    }
    Ok((manifests.borrow().clone(), api.borrow().clone()))
}

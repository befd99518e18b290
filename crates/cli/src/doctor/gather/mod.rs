//! Gathers the facts of a host. Thin: reads and asks, decides nothing, changes nothing.

mod configuration;
mod credentials;
mod machine;
mod network;
mod ownership;
mod runtime;
mod takeover;

use std::path::{Path, PathBuf};

use hostlet_config::{Config, ConfigErrors, KubeletFlags};
use hostlet_engine::ownership::History;
use hostlet_host::{HostDirs, root_check};
use jiff::Timestamp;
use tokio::net::UnixStream;

use super::facts::{Facts, ObjectsKeyFacts, wanted_ports};

/// Where facts are gathered.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The root of the host's files: `/` outside tests.
    pub root: PathBuf,
    /// The daemon's flags.
    pub flags: KubeletFlags,
    /// The name of the host.
    pub hostname: String,
}

/// Gathers everything. Fails only if not even the defaults are a configuration.
pub(crate) async fn gather(place: &Place) -> Result<Facts, ConfigErrors> {
    let (config, configuration) = configuration::configuration(place)?;
    let mut asked = runtime::ask(place, &config).await;
    let is_root = root_check().is_ok();
    // It may be a copy of this program that is called kubelet.
    let daemon = listener(&config.socket).await;
    let mut ownership = ownership::ownership(&place.root, &config, daemon, &asked.facts, asked.pods, is_root);
    if ownership.history == History::FirstStart && is_root {
        asked.running.retain(|pod| !ownership.recorded.contains(&pod.uid));
        ownership.unrunnable = takeover::takeover(place, &config, &asked.running).await;
    }
    Ok(Facts {
        is_root,
        now: Timestamp::now(),
        configuration,
        machine: machine::machine(&place.root, &config),
        cgroups: machine::cgroups(&place.root, &config, runtime::driver(&asked.facts, &config)),
        network: network::network(&place.root, &asked.cni),
        ports: network::ports(&place.root, &wanted_ports(&config), daemon),
        credentials: config.cluster.as_ref().map(|cluster| credentials::credentials(&cluster.kubeconfig)),
        objects_key: objects_key(&place.root, &config),
        ownership,
        runtime: asked.facts,
        config,
    })
}

/// The file with the key of stored objects, if there is one.
fn objects_key(root: &Path, config: &Config) -> Option<ObjectsKeyFacts> {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    config.cluster.as_ref().filter(|joined| joined.offline_objects)?;
    let file = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: PathBuf::new(),
    }
    .objects_key();
    let has_tpm = below(Path::new("/dev/tpmrm0")).exists();
    below(&file).symlink_metadata().ok().map(|_| ObjectsKeyFacts { file, has_tpm })
}

/// The process that listens on a socket; `None` if nobody does.
async fn listener(socket: &Path) -> Option<i32> {
    UnixStream::connect(socket).await.ok()?.peer_cred().ok()?.pid()
}

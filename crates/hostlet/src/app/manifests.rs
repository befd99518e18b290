//! The part that reads static pods.

use hostlet_config::Config;
use hostlet_engine::admission::AdoptedPod;
use hostlet_engine::source::{self, SourceConfig, SourceState, UrlSource};
use hostlet_net::http::{Fetcher, ProxyEnvironment};
use hostlet_pod::objects::Standalone;
use http::HeaderValue;
use tokio::sync::watch;

use super::tasks::{Stage, Tasks};

/// The `User-Agent` of requests to staticPodURL.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("hostlet/v", env!("CARGO_PKG_VERSION")));

/// Starts to read manifests into `state`. `objects` receives those that they define, on a standalone host.
pub(super) fn start_manifests(
    config: &Config,
    adopted: &[AdoptedPod],
    objects: Option<Standalone>,
    state: watch::Sender<SourceState>,
    tasks: &mut Tasks,
) {
    let source = SourceConfig {
        path: config.sources.static_pod_path.clone(),
        node_name: config.node_name.clone(),
        check_frequency: config.sources.file_check_frequency,
        rescan: tasks.rescan().subscribe(),
        objects,
        url: config.sources.static_pod_url.clone().map(|source| UrlSource {
            fetcher: Fetcher::new(source.url, source.headers, USER_AGENT, ProxyEnvironment::of_process()),
            check_frequency: config.sources.http_check_frequency,
        }),
    };
    let known = adopted.iter().filter_map(AdoptedPod::of_manifest).collect();
    tasks.spawn_reader(Stage::Pods, "manifests", |cancel| source::run(source, known, state, cancel));
}

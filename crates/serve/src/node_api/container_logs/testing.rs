//! Logs of no pods.

use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_engine::container_logs::ContainerLogs;
use hostlet_observe::log::LogWatches;
use hostlet_observe::pleg::Pleg;
use hostlet_observe::status::{PodDirectory, StatusCache};
use hostlet_runtime::cri::fake::FakeRuntime;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use super::ContainerLogDeps;

/// What the endpoint needs, of a node without pods.
pub(in crate::node_api) fn deps() -> ContainerLogDeps {
    let (_, pleg) = Pleg::new(Arc::new(FakeRuntime::new()), StdRng::seed_from_u64(1));
    let status_cache = StatusCache::default();
    ContainerLogDeps {
        pods: PodDirectory::of(status_cache.clone()),
        logs: ContainerLogs { pleg, status_cache, watches: LogWatches::default() },
        split_streams: false,
        clock: WallClock::system(),
        cancel: CancellationToken::new(),
    }
}

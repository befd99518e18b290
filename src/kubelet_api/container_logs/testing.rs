//! Logs of no pods.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use super::ContainerLogParts;
use crate::container_logs::ContainerLogs;
use crate::cri::fake::FakeRuntime;
use crate::log::LogWatches;
use crate::pleg::Pleg;
use crate::status::{PodDirectory, StatusCache};
use crate::types::WallClock;

/// The parts of a node without pods.
pub(in crate::kubelet_api) fn parts() -> ContainerLogParts {
    let (_, pleg) = Pleg::new(Arc::new(FakeRuntime::new()), StdRng::seed_from_u64(1));
    let status_cache = StatusCache::default();
    ContainerLogParts {
        pods: PodDirectory::of(status_cache.clone()),
        logs: ContainerLogs { pleg, status_cache, watches: LogWatches::default() },
        split_streams: false,
        clock: WallClock::system(),
        cancel: CancellationToken::new(),
    }
}

//! Streams of a node without pods, for tests of the whole API.

use std::sync::Arc;
use std::time::Duration;

use hostlet_observe::pleg::Pleg;
use hostlet_observe::status::{PodDirectory, StatusCache};
use hostlet_runtime::cri::fake::FakeRuntime;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::{StreamDeps, StreamMetrics};

/// What the streams of such a node need.
pub(in crate::node_api) fn of_empty_node() -> StreamDeps {
    let runtime = Arc::new(FakeRuntime::new());
    StreamDeps {
        pods: PodDirectory::of(StatusCache::default()),
        pleg: Pleg::new(runtime.clone(), StdRng::seed_from_u64(1)).1,
        runtime,
        idle: Duration::from_secs(3600),
        metrics: StreamMetrics::default(),
    }
}

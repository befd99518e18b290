//! The paths, and how each answer is made from fresh measurements.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::stream;
use hostlet_base::{WallClock, error_chain};
use hostlet_engine::eviction::volume_places;
use hostlet_host::{CpuTopology, Machine};
use hostlet_observe::stats::{Detail, DiskStats, MeasureError, StorageStats, UsageStats};
use hostlet_pod::DesiredPods;
use hostlet_runtime::cri::RuntimeService;
use jiff::Timestamp;
use tokio::sync::watch;

use super::super::answers::{Slashes, get_or_post};
use super::super::gzip::compress;
use super::exposition::TEXT_FORMAT;
use super::sandbox_images::SandboxImages;
use super::summary::{Disks, NodeFacts, summary};
use super::{cadvisor, cadvisor_units, machine, resource, volumes};

/// What the paths need.
#[derive(Clone)]
pub struct StatsDeps {
    /// What everything uses.
    pub usage: UsageStats,
    /// What the disks have.
    pub disks: DiskStats,
    /// What volumes take.
    pub storage: StorageStats,
    /// The desired pods, whose volumes are measured.
    pub desired_pods: watch::Receiver<DesiredPods>,
    /// The runtime, for the images of sandboxes.
    pub runtime: Arc<dyn RuntimeService>,
    /// Name of the node.
    pub node: String,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// The machine, for `machine_*` metrics.
    pub machine: Machine,
    /// Memory in huge pages, bytes, which is not available to others; 0 without `HugepageAwareEviction`.
    pub huge_pages: u64,
    /// The machine's sockets and cores, for `machine_*` metrics.
    pub topology: CpuTopology,
    /// How often volumes are measured (`volumeStatsAggPeriod`); `None` if never.
    pub volume_pace: Option<Duration>,
    /// When the daemon started.
    pub started_at: Timestamp,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
}

/// The statistics, which there are once the runtime has answered. Clones share them.
#[derive(Clone, Default)]
pub struct Stats(Arc<OnceLock<Server>>);

impl Stats {
    /// Gives them what they need. A second time has no effect.
    pub fn set(&self, deps: StatsDeps) {
        let facts =
            NodeFacts { name: deps.node.clone(), huge_pages: deps.huge_pages, started_at: deps.started_at };
        let images = SandboxImages::new(deps.runtime.clone());
        // Whoever was first has set the same.
        let _ = self.0.set(Server { deps, facts, images });
    }

    fn server(&self) -> Result<&Server, (StatusCode, &'static str)> {
        self.0.get().ok_or((StatusCode::SERVICE_UNAVAILABLE, "the container runtime has not answered yet\n"))
    }
}

struct Server {
    deps: StatsDeps,
    facts: NodeFacts,
    images: SandboxImages,
}

/// The paths of statistics.
pub(in crate::node_api) fn routes(stats: Stats) -> Router {
    let metrics = Router::new()
        .route("/metrics/resource", any(metrics_resource))
        .route("/metrics/cadvisor", any(metrics_cadvisor))
        .layer(from_fn(compress));
    Router::new().restful("/stats/summary", get_or_post(stats_summary)).merge(metrics).with_state(stats)
}

type Refused = (StatusCode, &'static str);

/// Exactly one parameter `only_cpu_and_memory=true` leaves out the rest.
async fn stats_summary(
    State(stats): State<Stats>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Refused> {
    let server = stats.server()?;
    let mut only =
        query.iter().filter(|(key, _)| key == "only_cpu_and_memory").map(|(_, value)| value.as_str());
    let is_brief = only.next() == Some("true") && only.next().is_none();
    let answer = if is_brief { server.brief_summary().await } else { server.summary().await };
    Ok(answer.unwrap_or_else(|error| {
        let error = error_chain(&error);
        tracing::warn!(error, "cannot answer /stats/summary");
        (StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {error}")).into_response()
    }))
}

/// Why there is no summary, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum SummaryError {
    /// What the node uses could not be measured.
    #[error("failed to get root cgroup stats")]
    Usage(#[source] Arc<MeasureError>),
    /// What the disks have could not be measured.
    #[error("failed to get imageFs stats")]
    Disks(#[source] Arc<MeasureError>),
}

impl Server {
    async fn brief_summary(&self) -> Result<Response, SummaryError> {
        let usage = self.deps.usage.usage(Detail::CpuAndMemory).await;
        let usage = usage.map_err(SummaryError::Usage)?;
        Ok(Json(summary(&self.facts, &usage, None)).into_response())
    }

    async fn summary(&self) -> Result<Response, SummaryError> {
        let deps = &self.deps;
        if let Some(pace) = deps.volume_pace {
            let places = volume_places(&deps.desired_pods.borrow(), &deps.root_dir, pace);
            deps.storage.ask(places);
        }
        let (usage, disks) = tokio::join!(deps.usage.usage(Detail::Summary), deps.disks.usage());
        let usage = usage.map_err(SummaryError::Usage)?;
        let disks = disks.map_err(SummaryError::Disks)?;
        let facts = volumes::facts(&deps.desired_pods.borrow());
        let storage = deps.storage.storage();
        let storage = storage.borrow();
        let disks = Disks { usage: &disks, volumes: &storage, facts: &facts };
        Ok(Json(summary(&self.facts, &usage, Some(&disks))).into_response())
    }
}

async fn metrics_resource(State(stats): State<Stats>) -> Result<Response, Refused> {
    let server = stats.server()?;
    let usage = server.deps.usage.usage(Detail::CpuAndMemory).await;
    if let Err(error) = &usage {
        tracing::warn!(error = error_chain(&**error), "cannot answer /metrics/resource");
    }
    let text = resource::render(usage.ok().as_deref());
    Ok(([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}

async fn metrics_cadvisor(State(stats): State<Stats>) -> Result<Response, Refused> {
    let server = stats.server()?;
    let deps = &server.deps;
    let machine = machine::render(&deps.machine, deps.topology);
    let usage = match deps.usage.usage(Detail::All).await {
        Ok(usage) => usage,
        Err(error) => {
            tracing::warn!(error = error_chain(&*error), "cannot answer /metrics/cadvisor");
            let text = machine + &cadvisor::scrape_error(true);
            return Ok(([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response());
        }
    };
    let units = cadvisor_units::units(&usage, &server.images.of(&usage).await);
    let now = deps.clock.now();
    let facts = machine + &cadvisor::scrape_error(false);
    // One family at a time is in memory: with many pods all of them are megabytes.
    let families =
        (0..cadvisor::COUNT).map(move |family| cadvisor::render(family, &units, &usage.devices, now));
    let chunks = std::iter::once(facts).chain(families).filter(|text| !text.is_empty());
    let chunks = chunks.map(|text| Ok::<_, std::convert::Infallible>(Bytes::from(text)));
    Ok(([(CONTENT_TYPE, TEXT_FORMAT)], Body::from_stream(stream::iter(chunks))).into_response())
}

//! The endpoints of the node's API, by family.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::any;
use http::StatusCode;

use super::answers::{Slashes, line};
use super::container_logs::{self, ContainerLogDeps};
use super::endpoints::{ENDPOINTS, Endpoint, WithoutDebugging};
use super::guard::{Guard, check};
use super::gzip::compress;
use super::healthz::{self, Healthz};
use super::metrics::{RequestMetrics, ServerType, measure};
use super::pages::NodePages;
use super::pods::PodLists;
use super::scrape::Scraped;
use super::stats::{self, Stats};
use super::streams::{self, StreamDeps};

/// What the endpoints need, by family.
#[derive(Clone)]
pub struct EndpointDeps {
    /// `/healthz` and `/metrics/slis`.
    pub healthz: Healthz,
    /// `/containerLogs`.
    pub logs: ContainerLogDeps,
    /// `/pods` and the other lists of pods.
    pub pods: PodLists,
    /// `/metrics` and `/metrics/probes`.
    pub scraped: Scraped,
    /// What the node says of itself.
    pub pages: NodePages,
    /// `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`.
    pub stats: Stats,
    /// `/exec`, `/attach`, `/portForward`, `/run`.
    pub streams: StreamDeps,
}

impl EndpointDeps {
    /// The endpoints that only read, which are also on the port without credentials. Upstream adds no new ones.
    fn open(&self) -> Router {
        let scraped = Router::new()
            .merge(self.healthz.slis.clone().routes())
            .merge(self.scraped.clone().routes())
            .layer(from_fn(compress));
        Router::new()
            .merge(healthz::routes(self.healthz.clone()))
            .merge(self.pods.clone().routes())
            .merge(stats::routes(self.stats.clone()))
            .merge(scraped)
    }

    /// The endpoints of `enableDebuggingHandlers`, which need credentials.
    fn debugging(&self) -> Router {
        Router::new()
            .merge(self.pods.clone().debugging_routes())
            .merge(self.pages.clone().routes())
            .merge(container_logs::routes(self.logs.clone()))
            .merge(streams::routes(self.streams.clone()))
    }
}

/// The API with credentials.
pub(super) fn secured(
    deps: &EndpointDeps,
    guard: Guard,
    has_debugging: bool,
    metrics: RequestMetrics,
) -> Router {
    let debugging = if has_debugging { deps.debugging() } else { disabled() };
    let endpoints = deps.open().merge(debugging).fallback(not_found);
    let guarded = endpoints.layer(from_fn_with_state(Arc::new(guard), check));
    guarded.layer(from_fn_with_state((metrics, ServerType::ReadWrite), measure))
}

/// What everybody may read (`readOnlyPort`).
pub(super) fn read_only(deps: &EndpointDeps, metrics: RequestMetrics) -> Router {
    let endpoints = deps.open().merge(disabled()).fallback(not_found);
    endpoints.layer(from_fn_with_state((metrics, ServerType::ReadOnly), measure))
}

/// Says of the debugging endpoints that they are disabled.
fn disabled() -> Router {
    let refuse = async || line(StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.");
    let is_disabled = |endpoint: &Endpoint| endpoint.without_debugging == WithoutDebugging::Disabled;
    let disabled = ENDPOINTS.into_iter().filter(is_disabled);
    disabled.fold(Router::new(), |router, Endpoint { path, .. }| {
        router.directory(&format!("{path}/"), any(refuse))
    })
}

async fn not_found() -> Response {
    line(StatusCode::NOT_FOUND, "404 page not found")
}

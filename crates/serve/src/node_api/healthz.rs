//! Health: `/healthz` and its checks, as upstream's on the API's port and on 10248. Reports; restarts nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use hostlet_telemetry::Heartbeats;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::answers::{TEXT, line, text};
use super::listen::{self, ListenError, Transport};
use super::slis::Slis;

/// A check, by upstream's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The process answers.
    Ping,
    /// Log lines are written. hostlet writes each one at once, so this is the same.
    Log,
    /// The main loops make progress.
    SyncLoop,
    /// Device plugins can register.
    DevicePlugin,
}

impl Check {
    /// In upstream's order.
    const ALL: [Self; 4] = [Self::Ping, Self::Log, Self::SyncLoop, Self::DevicePlugin];

    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Log => "log",
            Self::SyncLoop => "syncloop",
            Self::DevicePlugin => "device-plugin",
        }
    }
}

/// Says why device plugins cannot register; `None` if they can.
type DevicePlugins = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The endpoint. Clones share the results of the checks.
#[derive(Clone)]
pub struct Healthz {
    heartbeats: Heartbeats,
    device_plugins: DevicePlugins,
    pub(super) slis: Slis,
}

impl Healthz {
    /// An endpoint for the health of these loops of the process, which started then. `device_plugins` says why device plugins cannot
    /// register.
    pub fn new(
        heartbeats: Heartbeats,
        device_plugins: impl Fn() -> Option<String> + Send + Sync + 'static,
        started: Timestamp,
    ) -> Self {
        Self { heartbeats, device_plugins: Arc::new(device_plugins), slis: Slis::new(started) }
    }

    /// Opens the port of an endpoint with nothing else (`healthzBindAddress`, `healthzPort`).
    pub fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
        listen::bind(address, "healthzPort", "set another healthzPort, or 0 for no health endpoint")
    }

    /// Serves nothing else until cancelled.
    pub async fn run(self, listener: TcpListener, cancel: CancellationToken) {
        listen::serve(listener, &Transport::Plain, routes(self), &cancel).await;
    }

    /// Makes a check. Returns why it failed; `None` if it passed.
    async fn problem(&self, check: Check) -> Option<String> {
        match check {
            Check::Ping | Check::Log => None,
            Check::SyncLoop => {
                let overdue = self.heartbeats.check().await;
                (!overdue.is_empty()).then(|| format!("no answer from {}", overdue.join(", ")))
            }
            Check::DevicePlugin => (self.device_plugins)(),
        }
    }
}

/// `/healthz` and each check below it. Upstream answers every method.
pub(super) fn routes(health: Healthz) -> Router {
    Router::new().route("/healthz", any(all)).route("/healthz/{check}", any(single)).with_state(health)
}

/// All checks but the excluded ones. `verbose` shows each one; a failed one always does.
async fn all(State(healthz): State<Healthz>, RawQuery(query): RawQuery) -> Response {
    let (is_verbose, excluded) = options(query.as_deref().unwrap_or_default());
    let (mut lines, mut is_healthy) = (String::new(), true);
    for check in Check::ALL {
        let name = check.name();
        if excluded.iter().any(|excluded| excluded == name) {
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        let problem = healthz.problem(check).await;
        healthz.slis.record(name, problem.is_none());
        match problem {
            None => lines.push_str(&format!("[+]{name} ok\n")),
            Some(reason) => {
                is_healthy = false;
                lines.push_str(&format!("[-]{name} failed: {reason}\n"));
            }
        }
    }
    let known = |excluded: &&String| Check::ALL.iter().all(|check| check.name() != excluded.as_str());
    let unknown: Vec<String> = excluded.iter().filter(known).map(|name| format!("{name:?}")).collect();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    match (is_healthy, is_verbose) {
        (true, false) => (TEXT, "ok").into_response(),
        (true, true) => (TEXT, format!("{lines}healthz check passed\n")).into_response(),
        (false, _) => {
            tracing::warn!(checks = lines.trim_end(), "not healthy");
            line(StatusCode::INTERNAL_SERVER_ERROR, &format!("{lines}healthz check failed"))
        }
    }
}

/// One check.
async fn single(State(healthz): State<Healthz>, Path(name): Path<String>) -> Response {
    let Some(check) = Check::ALL.into_iter().find(|check| check.name() == name) else {
        return line(StatusCode::NOT_FOUND, "404 page not found");
    };
    match healthz.problem(check).await {
        None => text(StatusCode::OK, "ok"),
        Some(reason) => line(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {reason}")),
    }
}

/// Whether to show each check, and the checks to exclude.
fn options(query: &str) -> (bool, Vec<String>) {
    let fields: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
    let is_verbose = fields.iter().any(|(name, _)| name == "verbose");
    (is_verbose, fields.into_iter().filter(|(name, _)| name == "exclude").map(|(_, check)| check).collect())
}

#[cfg(test)]
#[path = "healthz_tests.rs"]
mod tests;

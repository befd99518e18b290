//! Health: `/healthz` and its checks, as upstream's on the API's port and on 10248. Reports; restarts nothing.

use std::net::SocketAddr;

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
}

impl Check {
    /// In upstream's order.
    const ALL: [Self; 3] = [Self::Ping, Self::Log, Self::SyncLoop];

    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Log => "log",
            Self::SyncLoop => "syncloop",
        }
    }
}

/// The endpoint. Clones share the results of the checks.
#[derive(Clone)]
pub struct Healthz {
    heartbeats: Heartbeats,
    pub(super) slis: Slis,
}

impl Healthz {
    /// An endpoint for the health of these loops of the process, which started then.
    pub fn new(heartbeats: Heartbeats, started: Timestamp) -> Self {
        Self { heartbeats, slis: Slis::new(started) }
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
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use http::Request;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tower::ServiceExt;

    use super::*;

    /// Serves on a free port.
    async fn serve(heartbeats: Heartbeats) -> (SocketAddr, tokio_util::sync::DropGuard) {
        let listener = Healthz::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, cancel) = (listener.local_addr().unwrap(), CancellationToken::new());
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(Healthz::new(heartbeats, Timestamp::UNIX_EPOCH).run(listener, cancel.clone()));
        (address, cancel.drop_guard())
    }

    /// The status line and body of a response.
    async fn ask(address: SocketAddr, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains("content-type: text/plain; charset=utf-8"), "{head}");
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn a_healthy_daemon_answers_as_upstreams() {
        let (address, _serving) = serve(Heartbeats::default()).await;
        for (path, status, expected) in [
            ("/healthz", "HTTP/1.1 200 OK", "ok"),
            ("/healthz/ping", "HTTP/1.1 200 OK", "ok"),
            ("/healthz/log", "HTTP/1.1 200 OK", "ok"),
            ("/healthz/syncloop", "HTTP/1.1 200 OK", "ok"),
            ("/healthz/none", "HTTP/1.1 404 Not Found", "404 page not found\n"),
            (
                "/healthz?verbose",
                "HTTP/1.1 200 OK",
                "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n",
            ),
            (
                "/healthz?verbose=1&exclude=log&exclude=no",
                "HTTP/1.1 200 OK",
                "[+]ping ok\n[+]log excluded: ok\n[+]syncloop ok\nwarn: some health checks cannot be excluded: \
                 no matches for \"no\"\nhealthz check passed\n",
            ),
        ] {
            assert_eq!(ask(address, path).await, (status.to_owned(), expected.to_owned()), "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_without_an_answer_is_named() {
        let heartbeats = Heartbeats::default();
        let _stuck = heartbeats.register("pleg");
        let (address, _serving) = serve(heartbeats).await;
        let failed = "HTTP/1.1 500 Internal Server Error".to_owned();
        let text = "[+]ping ok\n[+]log ok\n[-]syncloop failed: no answer from pleg\nhealthz check failed\n";
        assert_eq!(ask(address, "/healthz").await, (failed.clone(), text.to_owned()));
        let text = "internal server error: no answer from pleg\n";
        assert_eq!(ask(address, "/healthz/syncloop").await, (failed, text.to_owned()));
        assert_eq!(ask(address, "/healthz?exclude=syncloop").await.1, "ok");
    }

    #[tokio::test(start_paused = true)]
    async fn the_results_of_checks_are_counted() {
        let heartbeats = Heartbeats::default();
        let stuck = heartbeats.register("pleg");
        let healthz = Healthz::new(heartbeats, "2026-11-25T10:00:00.5Z".parse().unwrap());
        let app = routes(healthz.clone()).merge(healthz.slis.routes());
        let ask = async |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let body = app.clone().oneshot(request).await.unwrap().into_body();
            String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap()
        };
        let started = "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n\
                       # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1795600800.5\n";
        ask("GET", "/healthz?exclude=log").await;
        stuck.alive_for(Duration::from_secs(60));
        ask("POST", "/healthz?exclude=log").await;
        ask("GET", "/healthz/ping").await;
        let text = ask("GET", "/metrics/slis").await;
        for line in [
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
            "# TYPE kubernetes_healthcheck gauge",
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1",
            "kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 1",
            "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
            "# TYPE kubernetes_healthchecks_total counter",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2",
            "kubernetes_healthchecks_total{name=\"syncloop\",status=\"error\",type=\"healthz\"} 1",
            "kubernetes_healthchecks_total{name=\"syncloop\",status=\"success\",type=\"healthz\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with(started) && !text.contains("name=\"log\""), "{text}");
        assert_eq!(ask("DELETE", "/metrics/slis").await, "metrics reset\n");
        assert_eq!(ask("GET", "/metrics/slis").await, started);
    }

    #[tokio::test]
    async fn a_port_in_use_is_reported_with_the_remedy() {
        let taken = Healthz::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = Healthz::bind(address).unwrap_err().to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("0 for no health endpoint"),
            "{error}"
        );
    }
}

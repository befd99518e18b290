//! The health endpoint with fresh and stale heartbeats.

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
    tokio::spawn(Healthz::new(heartbeats, || None, Timestamp::UNIX_EPOCH).run(listener, cancel.clone()));
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
        ("/healthz/device-plugin", "HTTP/1.1 200 OK", "ok"),
        ("/healthz/none", "HTTP/1.1 404 Not Found", "404 page not found\n"),
        (
            "/healthz?verbose",
            "HTTP/1.1 200 OK",
            "[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]device-plugin ok\nhealthz check passed\n",
        ),
        (
            "/healthz?verbose=1&exclude=log&exclude=no",
            "HTTP/1.1 200 OK",
            "[+]ping ok\n[+]log excluded: ok\n[+]syncloop ok\n[+]device-plugin ok\nwarn: some health checks cannot be excluded: \
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
    let text = "[+]ping ok\n[+]log ok\n[-]syncloop failed: no answer from pleg\n[+]device-plugin ok\nhealthz check failed\n";
    assert_eq!(ask(address, "/healthz").await, (failed.clone(), text.to_owned()));
    let text = "internal server error: no answer from pleg\n";
    assert_eq!(ask(address, "/healthz/syncloop").await, (failed, text.to_owned()));
    assert_eq!(ask(address, "/healthz?exclude=syncloop").await.1, "ok");
}

#[tokio::test]
async fn a_socket_at_which_no_device_plugin_can_register_is_named() {
    let problem = || Some("device plugins cannot register: no space".to_owned());
    let app = routes(Healthz::new(Heartbeats::default(), problem, Timestamp::UNIX_EPOCH));
    let request = Request::builder().uri("/healthz").body(Body::empty()).unwrap();
    let response = app.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("[-]device-plugin failed: device plugins cannot register: no space\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_results_of_checks_are_counted() {
    let heartbeats = Heartbeats::default();
    let stuck = heartbeats.register("pleg");
    let healthz = Healthz::new(heartbeats, || None, "2026-11-25T10:00:00.5Z".parse().unwrap());
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
    assert!(error.contains(&address.to_string()) && error.contains("0 for no health endpoint"), "{error}");
}

//! From a probe's spec to its verdict, against scripted servers on the loopback interface.

use hostlet_net::http::testing::{Server, Then};
use hostlet_pod::defaults::set_defaults;
use hostlet_pod::{AdmittedPod, ContainerKind, ContainerRef, ProbeKind};
use hostlet_runtime::cri::fake::FakeRuntime;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::schedule::ProbeKey;
use super::*;

/// The answer of a readiness probe of a pod on the loopback interface.
async fn answer(probe: Value, port: u16) -> Attempt {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{
            "name": "c", "image": "img", "readinessProbe": probe, "ports": [{"name": "web", "containerPort": port}],
        }]},
    }))
    .unwrap();
    set_defaults(&mut pod);
    let run = Run {
        is_early: false,
        key: ProbeKey::FIRST,
        kind: ProbeKind::Readiness,
        pod: AdmittedPod::new(pod),
        container: ContainerRef { kind: ContainerKind::Main, name: "c".to_owned() },
        id: "c-0".into(),
        ip: "127.0.0.1".to_owned(),
    };
    ProbeRunner::new(Arc::new(FakeRuntime::new())).run(&run).await
}

fn failure(text: &str) -> Attempt {
    Ok(Answer::Failure(text.to_owned()))
}

#[tokio::test]
async fn the_status_of_a_response_decides() {
    for (status, expected) in [
        ("200 OK", Ok(Answer::Success)),
        ("204 No Content", Ok(Answer::Success)),
        ("301 Moved", Ok(Answer::Warning("Probe terminated redirects, Response body: ".to_owned()))),
        ("404 Not Found", failure("HTTP probe failed with statuscode: 404")),
        ("503 Unavailable", failure("HTTP probe failed with statuscode: 503")),
    ] {
        let server = Server::saying(&format!("HTTP/1.1 {status}\r\n\r\n")).await;
        assert_eq!(answer(json!({"httpGet": {"port": "web"}}), server.port).await, expected);
        assert!(server.requests()[0].starts_with("GET / HTTP/1.1\r\n"), "{:?}", server.requests());
    }
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\n\r\nmoved";
    let server = Server::saying(elsewhere).await;
    let warning = Answer::Warning("Probe terminated redirects, Response body: moved".to_owned());
    assert_eq!(answer(json!({"httpGet": {"port": server.port}}), 1).await, Ok(warning));
}

#[tokio::test]
async fn what_says_nothing_about_the_container_is_tried_three_times() {
    let no_port = Err(AttemptError::NotSent("port \"none\" not found".to_owned()));
    assert_eq!(answer(json!({"httpGet": {"port": "none"}}), 1).await, no_port);
    assert_eq!(answer(json!({"tcpSocket": {"port": "none"}}), 1).await, no_port);
    let broken = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab".to_vec();
    let server = Server::answering(vec![broken], Then::Close).await;
    let text = "unexpected EOF".to_owned();
    let probe = json!({"httpGet": {"port": server.port}});
    assert_eq!(answer(probe, 1).await, Err(AttemptError::BrokenOff(text)));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn other_hosts_and_kinds_are_probed() {
    let server = Server::saying("").await;
    let elsewhere = json!({"tcpSocket": {"port": server.port, "host": "localhost"}});
    assert_eq!(answer(elsewhere, 1).await, Ok(Answer::Success));
    let grpc = answer(json!({"grpc": {"port": server.port}}), 1).await;
    let text = format!(
        "timeout: failed to connect service \"127.0.0.1:{}\" within 1s: context deadline exceeded",
        server.port
    );
    assert_eq!(grpc, failure(&text));
}

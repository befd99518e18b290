//! The pages, compared with the stock kubelet's.

use axum::body::{Body, to_bytes};
use hostlet_base::WallClock;
use http::{HeaderMap, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

async fn ask(path: &str, accept: &str) -> (u16, HeaderMap, String) {
    let started: Timestamp = "2026-11-22T21:17:20Z".parse().unwrap();
    let now: Timestamp = "2026-11-22T22:20:11Z".parse().unwrap();
    let pages = ZPages {
        started,
        clock: WallClock::of_tokio(now),
        has_status: true,
        flags: Some([("v", "0"), ("address", "0.0.0.0")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()),
    };
    let request = Request::builder().uri(path).header("accept", accept).body(Body::empty()).unwrap();
    let answer = pages.routes().oneshot(request).await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn people_get_text() {
    let (status, headers, text) = ask("/statusz", "application/json, */*").await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "text/plain; charset=utf-8"));
    let expected = "\nkubelet statusz\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
        guarantees and is for debugging purposes only.\n\nStarted: Sun Nov 22 21:17:20 UTC 2026\nUp: 1 hr 02 min 51 sec\n\
        Go version: none (Rust)\nBinary version: 1.37.2\nEmulation version: 1.37\nPaths: /configz /debug /flagz /healthz /metrics\n";
    assert_eq!(text, expected);
    let (_, _, text) = ask("/flagz", "").await;
    assert!(text.ends_with("purposes only.\naddress=0.0.0.0\nv=0\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn programs_get_objects_of_the_version_they_name() {
    let accept =
        |version: &str, kind: &str| format!("application/json;g=config.k8s.io;v={version};as={kind}");
    let (status, headers, text) = ask("/statusz", &accept("v1beta1", "Statusz")).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "application/json"));
    assert!(!headers.contains_key("warning"));
    let expected = json!({
        "kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "kubelet"},
        "startTime": "2026-11-22T21:17:20Z", "uptimeSeconds": 3771, "goVersion": "none (Rust)",
        "binaryVersion": "1.37.2", "emulationVersion": "1.37", "paths": ["/configz", "/debug", "/flagz", "/healthz", "/metrics"],
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    let (_, headers, text) = ask("/flagz", &accept("v1alpha1", "Flagz")).await;
    assert!(headers["warning"].to_str().unwrap().contains("flagz endpoint is deprecated"));
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["flags"], json!({"address": "0.0.0.0", "v": "0"}));
    let (_, headers, text) = ask("/flagz", "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz").await;
    assert_eq!(headers["content-type"].to_str().unwrap(), "application/yaml");
    assert!(text.contains("kind: Flagz"), "{text}");
    let (status, _, text) = ask("/statusz", "text/html").await;
    assert_eq!(
        (status, serde_json::from_str::<Value>(&text).unwrap()["reason"].clone()),
        (406, json!("NotAcceptable"))
    );
}

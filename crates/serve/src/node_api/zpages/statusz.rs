//! `/statusz`: how long the process runs, and its version.

use axum::Router;
use axum::routing::any;
use hostlet_base::{KUBERNETES_VERSION, WallClock};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::json;

use super::page::{Page, head};

/// The field for the version of Go.
const NO_GO: &str = "none (Rust)";

/// The paths that upstream's page names.
const PATHS: [&str; 5] = ["/configz", "/debug", "/flagz", "/healthz", "/metrics"];

/// The endpoint.
pub(super) fn routes(started: Timestamp, clock: WallClock) -> Router {
    let answer = move |headers: HeaderMap| {
        let seconds = clock.steady().duration_since(started).as_secs().max(0);
        let page = Page {
            kind: "Statusz",
            name: "statusz",
            text: &|| text(started, seconds),
            fields: &|| {
                json!({
                    "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "uptimeSeconds": seconds,
                    "goVersion": NO_GO, "binaryVersion": binary_version(), "emulationVersion": emulated_version(),
                    "paths": PATHS,
                })
            },
        };
        std::future::ready(page.answer(&headers))
    };
    Router::new().route("/statusz", any(answer))
}

fn text(started: Timestamp, seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "{}\nStarted: {}\nUp: {hours} hr {minutes:02} min {rest:02} sec\nGo version: {NO_GO}\n\
         Binary version: {}\nEmulation version: {}\nPaths: {}\n",
        head("statusz"),
        started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        binary_version(),
        emulated_version(),
        PATHS.join(" "),
    )
}

/// The version of Kubernetes that this node is compatible with.
fn binary_version() -> &'static str {
    KUBERNETES_VERSION.trim_start_matches('v')
}

fn emulated_version() -> &'static str {
    let version = binary_version();
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

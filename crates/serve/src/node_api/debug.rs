//! `/debug/flags/v`, which sets the verbosity of the log, and `/debug/pprof/`, which has nothing to offer: hostlet has no Go runtime.

use std::fmt::Display;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::any;
use hostlet_base::{error_chain, go_quoted};
use hostlet_telemetry::{LogControl, LogFormat, TelemetryError};
use http::{Method, StatusCode};

use super::answers::{Slashes, line, only_get};

/// What `/debug/pprof/` says.
const NO_PROFILES: &str =
    "hostlet is no Go program and has no pprof profiles: use perf on this host (perf record -g -p PID)";

/// Which of them are enabled.
#[derive(Clone)]
pub struct DebugHandlers {
    /// `/debug/flags/v` (`enableDebugFlagsHandler`): the log and its format.
    pub flags: Option<(LogControl, LogFormat)>,
    /// `/debug/pprof/` (`enableProfilingHandler`).
    pub has_profiling: bool,
}

/// Sets the verbosity, or says why not.
type SetVerbosity = Arc<dyn Fn(u8) -> Result<(), TelemetryError> + Send + Sync>;

impl DebugHandlers {
    /// Both endpoints.
    pub(super) fn routes(self) -> Router {
        let set = self
            .flags
            .map(|(log, format)| -> SetVerbosity { Arc::new(move |verbosity| log.apply(format, verbosity)) });
        routes(set, self.has_profiling)
    }
}

fn routes(set: Option<SetVerbosity>, has_profiling: bool) -> Router {
    let profiles = match has_profiling {
        true => only_get(async || line(StatusCode::NOT_IMPLEMENTED, NO_PROFILES)),
        false => any(async || line(StatusCode::METHOD_NOT_ALLOWED, "profiling endpoint is disabled.")),
    };
    let flags = match set {
        Some(set) => Router::new().route("/debug/flags/v", any(verbosity)).with_state(set),
        None => Router::new().route("/debug/flags/v", any(flags_are_disabled)),
    };
    flags.directory("/debug/pprof/", profiles)
}

async fn flags_are_disabled() -> Response {
    line(StatusCode::METHOD_NOT_ALLOWED, "flags endpoint is disabled.")
}

async fn verbosity(State(set): State<SetVerbosity>, method: Method, body: Bytes) -> Response {
    if method != Method::PUT {
        return line(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let value = String::from_utf8_lossy(&body).into_owned();
    let failed = |why: &dyn Display| {
        line(StatusCode::BAD_REQUEST, &format!("failed set klog.logging.verbosity {value}: {why}"))
    };
    // Go accepts more than there are levels; the highest has everything.
    let parsed = match value.parse::<u32>() {
        Ok(parsed) => u8::try_from(parsed).unwrap_or(u8::MAX),
        Err(_) => return failed(&format!("strconv.ParseInt: parsing {}: invalid syntax", go_quoted(&value))),
    };
    match set(parsed) {
        Ok(()) => {
            tracing::info!(verbosity = parsed, "the verbosity of the log was set over the node's API");
            line(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {value}"))
        }
        Err(error) => failed(&error_chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::Request;
    use parking_lot::Mutex;
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_verbosity_is_set_with_upstreams_answers() {
        let levels = Arc::new(Mutex::new(Vec::new()));
        let known = levels.clone();
        let set: SetVerbosity = Arc::new(move |level| {
            known.lock().push(level);
            Ok(())
        });
        let router = routes(Some(set), true);
        let done = (200, "successfully set klog.logging.verbosity to 4\n".to_owned());
        assert_eq!(ask(&router, "PUT", "/debug/flags/v", "4").await, done);
        assert_eq!(
            ask(&router, "GET", "/debug/flags/v", "").await,
            (406, "unsupported http method\n".to_owned())
        );
        let (status, why) = ask(&router, "PUT", "/debug/flags/v", "loud").await;
        assert_eq!(status, 400);
        assert!(why.starts_with("failed set klog.logging.verbosity loud: strconv.ParseInt"), "{why}");
        assert_eq!(*levels.lock(), [4]);
        assert_eq!(ask(&router, "GET", "/debug/pprof/profile", "").await.0, 501);
    }

    #[tokio::test]
    async fn what_is_disabled_says_so() {
        let router = routes(None, false);
        for (path, text) in [
            ("/debug/flags/v", "flags endpoint is disabled.\n"),
            ("/debug/pprof/", "profiling endpoint is disabled.\n"),
        ] {
            assert_eq!(ask(&router, "GET", path, "").await, (405, text.to_owned()));
        }
    }
}

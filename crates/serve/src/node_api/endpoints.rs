//! The table of endpoints: what a request to each path needs permission for, where it is served, and what it is counted as. Whatever
//! depends on a path is read here. The values are upstream's. Serves nothing.

use self::WithoutDebugging::{Disabled, NotFound, Served};

/// A path with everything below it. If it ends in a slash, only what is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) path: &'static str,
    /// The verb that a request needs.
    pub(super) verb: EndpointVerb,
    /// The subresources of the node of which one is enough, asked for in this order: the narrower first (KEP-2862).
    pub(super) subresources: &'static [&'static str],
    /// Whether it is one of the debugging handlers, and what answers instead of it if they are disabled.
    pub(super) without_debugging: WithoutDebugging,
    /// The label `path` of its metrics.
    pub(super) metric_label: &'static str,
    /// Whether its requests last: the label `long_running` of its metrics.
    pub(super) is_long_running: bool,
}

/// The verb that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointVerb {
    /// The verb of its HTTP method.
    OfMethod,
    /// The verb of a stream or command, whose effect does not depend on its HTTP method.
    OfStream,
}

/// What an endpoint answers without the debugging handlers (`enableDebuggingHandlers: false`), and on the port without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutDebugging {
    /// The same: it is no debugging handler.
    Served,
    Disabled,
    /// The same as a path without an endpoint.
    NotFound,
}

/// The subresource that grants everything without one of its own.
const PROXY: &[&str] = &["proxy"];
const PODS: &[&str] = &["pods", "proxy"];
const METRICS: &[&str] = &["metrics"];

/// All endpoints. The first one that includes a path is its endpoint.
pub(super) const ENDPOINTS: [Endpoint; 23] = [
    endpoint("/healthz", &["healthz", "proxy"], Served, "healthz"),
    endpoint("/pods", PODS, Served, "pods"),
    endpoint("/stats", &["stats"], Served, "stats"),
    endpoint("/metrics/cadvisor", METRICS, Served, "metrics/cadvisor"),
    endpoint("/metrics/probes", METRICS, Served, "metrics/probes"),
    endpoint("/metrics/resource", METRICS, Served, "metrics/resource"),
    // `/metrics/slis` has no label of its own.
    endpoint("/metrics/", METRICS, Served, OTHER),
    endpoint("/metrics", METRICS, Served, "metrics"),
    stream("/exec", "exec").lasting(),
    stream("/attach", "attach").lasting(),
    stream("/portForward", "portForward"),
    stream("/run", "run"),
    endpoint("/containerLogs", PROXY, Disabled, "containerLogs"),
    endpoint("/runningpods", PODS, Disabled, "runningpods"),
    endpoint("/logs", &["log"], Disabled, "logs"),
    endpoint("/debug/pprof", PROXY, Disabled, "debug").lasting(),
    endpoint("/debug", PROXY, NotFound, "debug").lasting(),
    endpoint("/allocatedPods", PODS, NotFound, "allocatedPods"),
    endpoint("/configz", &["configz", "proxy"], NotFound, "configz"),
    endpoint("/statusz", &["statusz"], NotFound, "statusz"),
    endpoint("/flagz", &["configz"], NotFound, "flagz"),
    endpoint("/checkpoint", &["checkpoint"], NotFound, "checkpoint"),
    // Only counted.
    endpoint("/pprof", PROXY, NotFound, "pprof"),
];

/// Every other path.
const UNKNOWN: Endpoint = endpoint("/", PROXY, NotFound, OTHER);

/// The metrics' label of all paths that have no label of their own.
const OTHER: &str = "other";

/// The endpoint of a path, as it is in the URL: a path with an encoded letter or a doubled slash is not that of an endpoint.
pub(super) fn find(path: &str) -> Endpoint {
    ENDPOINTS.iter().find(|endpoint| endpoint.includes(path)).copied().unwrap_or(UNKNOWN)
}

const fn endpoint(
    path: &'static str,
    subresources: &'static [&'static str],
    without_debugging: WithoutDebugging,
    metric_label: &'static str,
) -> Endpoint {
    let verb = EndpointVerb::OfMethod;
    Endpoint { path, verb, subresources, without_debugging, metric_label, is_long_running: false }
}

const fn stream(path: &'static str, metric_label: &'static str) -> Endpoint {
    Endpoint { verb: EndpointVerb::OfStream, ..endpoint(path, PROXY, Disabled, metric_label) }
}

impl Endpoint {
    const fn lasting(self) -> Self {
        Self { is_long_running: true, ..self }
    }

    fn includes(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.path);
        below.is_some_and(|below| below.is_empty() || below.starts_with('/') || self.path.ends_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_endpoint_hides_a_later_one() {
        for endpoint in ENDPOINTS {
            assert_eq!(find(endpoint.path), endpoint);
        }
    }

    #[test]
    fn the_labels_of_metrics_are_bounded_and_those_of_upstream() {
        for (path, label, is_long_running) in [
            ("/", "other", false),
            ("", "other", false),
            ("*", "other", false),
            ("/other", "other", false),
            ("/metrics", "metrics", false),
            ("/metrics/", "other", false),
            ("/metrics/cadvisor", "metrics/cadvisor", false),
            ("/metrics/cadvisor/x", "metrics/cadvisor", false),
            ("/metrics/slis", "other", false),
            ("/exec/ns/pod/c", "exec", true),
            ("/attach/ns/pod/c", "attach", true),
            ("/portForward/ns/pod", "portForward", false),
            ("/run/ns/pod/c", "run", false),
            ("/debug/pprof/heap", "debug", true),
            ("/debug/flags/v", "debug", true),
            ("/pprof", "pprof", false),
            ("/healthz/ping", "healthz", false),
            ("/healthzandmore", "other", false),
            ("/etc/passwd", "other", false),
        ] {
            let found = find(path);
            assert_eq!((found.metric_label, found.is_long_running), (label, is_long_running), "{path}");
        }
    }
}

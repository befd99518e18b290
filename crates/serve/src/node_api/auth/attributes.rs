//! What a request needs permission for. Pure.

use http::Method;

/// Which verb a request for a stream needs, whose effect does not depend on its HTTP method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingVerbs {
    /// `create`, as on the API server: who may only read nodes runs no commands.
    #[default]
    Create,
    /// Upstream's: `get` for the GET of a WebSocket, `create` for the POST of SPDY.
    OfMethod,
}

/// What a request needs permission for: a verb on one of these subresources of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The verb; empty for methods without one.
    pub verb: &'static str,
    /// The subresources, asked for in this order: the narrower first.
    pub subresources: Vec<&'static str>,
    /// The path of the URL.
    pub path: String,
}

/// Paths of streams and commands. Each is the beginning of further segments.
const STREAMS: [&str; 4] = ["/exec", "/attach", "/run", "/portForward"];

/// Paths with subresources of their own, asked for before `proxy` (KEP-2862).
const FINE_GRAINED: [(&str, &str); 5] = [
    ("/allocatedPods", "pods"),
    ("/pods", "pods"),
    ("/runningpods", "pods"),
    ("/healthz", "healthz"),
    ("/configz", "configz"),
];

/// Paths with subresources instead of `proxy`.
const INSTEAD: [(&str, &str); 6] = [
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
];

/// What a request with this method and path of the URL needs.
pub fn attributes(method: &Method, path: &str, streaming: StreamingVerbs) -> Attributes {
    let is_below = |beginning: &str| {
        path.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let of_path = |table: &[(&str, &'static str)]| {
        table.iter().find(|(beginning, _)| is_below(beginning)).map(|(_, subresource)| *subresource)
    };
    let verb = match streaming {
        StreamingVerbs::Create if STREAMS.into_iter().any(is_below) => "create",
        StreamingVerbs::Create | StreamingVerbs::OfMethod => verb(method),
    };
    let mut subresources = Vec::from_iter(of_path(&FINE_GRAINED));
    subresources.push(of_path(&INSTEAD).unwrap_or("proxy"));
    Attributes { verb, subresources, path: path.to_owned() }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_needs_its_subresources() {
        for (path, subresources) in [
            ("/stats", &["stats"][..]),
            ("/stats/summary", &["stats"]),
            ("/statsfoo", &["proxy"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/logs/", &["log"]),
            ("/checkpoint/ns/pod/c", &["checkpoint"]),
            ("/pods", &["pods", "proxy"]),
            ("/pods/", &["pods", "proxy"]),
            ("/podsandmore", &["proxy"]),
            ("/allocatedPods/ns/a", &["pods", "proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/runningpods", &["pods", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/statusz", &["statusz"]),
            ("/flagz", &["configz"]),
            ("/containerLogs/ns/pod/c", &["proxy"]),
            ("/exec/ns/pod/c", &["proxy"]),
            ("/", &["proxy"]),
            ("", &["proxy"]),
        ] {
            let found = attributes(&Method::GET, path, StreamingVerbs::Create);
            assert_eq!(found.subresources, subresources, "{path}");
        }
    }

    #[test]
    fn streams_need_create_whatever_their_method() {
        for path in ["/exec/a/b/c", "/attach/a/b/c", "/run/a/b/c", "/portForward/a/b", "/exec", "/exec/"] {
            for method in [Method::GET, Method::POST, Method::HEAD, Method::OPTIONS, Method::CONNECT] {
                assert_eq!(
                    attributes(&method, path, StreamingVerbs::Create).verb,
                    "create",
                    "{method} {path}"
                );
            }
            assert_eq!(attributes(&Method::GET, path, StreamingVerbs::OfMethod).verb, "get");
            assert_eq!(attributes(&Method::POST, path, StreamingVerbs::OfMethod).verb, "create");
        }
        for (method, verb) in [
            (Method::GET, "get"),
            (Method::POST, "create"),
            (Method::PUT, "update"),
            (Method::PATCH, "patch"),
        ] {
            assert_eq!(attributes(&method, "/executed", StreamingVerbs::Create).verb, verb);
        }
        assert_eq!(attributes(&Method::DELETE, "/pods", StreamingVerbs::Create).verb, "delete");
        assert_eq!(attributes(&Method::HEAD, "/pods", StreamingVerbs::Create).verb, "");
    }
}

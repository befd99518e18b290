//! What a request needs permission for. Pure.

use http::Method;

use super::super::endpoints::{self, EndpointVerb};

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
pub(in crate::node_api) struct Attributes {
    /// The verb; empty for methods without one.
    pub(super) verb: &'static str,
    /// The subresources, asked for in this order: the narrower first.
    pub(super) subresources: &'static [&'static str],
}

/// What a request with this method and path of the URL needs.
pub(in crate::node_api) fn attributes(method: &Method, path: &str, streaming: StreamingVerbs) -> Attributes {
    let endpoint = endpoints::find(path);
    let verb = match (endpoint.verb, streaming) {
        (EndpointVerb::OfStream, StreamingVerbs::Create) => "create",
        (EndpointVerb::OfStream, StreamingVerbs::OfMethod) | (EndpointVerb::OfMethod, _) => verb(method),
    };
    Attributes { verb, subresources: endpoint.subresources }
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

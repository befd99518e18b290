//! Who may use which path: every path with every kind of credentials, and every right alone.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hostlet_base::WallClock;
use hostlet_config::EffectiveConfig;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_net::tls::{ClientAuthorities, PrivateKey, certificate_request};
use hostlet_observe::pleg::Pleg;
use hostlet_observe::status::{PodDirectory, StatusCache};
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_telemetry::{Heartbeats, Metrics};
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::watch;
use tower::ServiceExt;

use super::auth::testing::FakeReviews;
use super::auth::{Authenticator, AuthenticatorSettings, Authorizer, Reviews, StreamingVerbs};
use super::connection_use::Refused;
use super::connections::LetIn;
use super::endpoints::{ENDPOINTS, WithoutDebugging, find};
use super::listen::{Client, ClientCertificates};
use super::routes::{EndpointDeps, read_only, secured};
use super::stats::Stats;
use super::{
    Checkpoints, DebugHandlers, Guard, Healthz, NodePages, PodLists, RequestMetrics, Scraped, SystemLogs,
    ZPages, container_logs, streams,
};

/// Each path with a method, the verb that it needs, and the subresources of which one is enough.
const PATHS: [(&str, &str, &str, &[&str]); 46] = [
    ("GET", "/healthz", "get", &["healthz", "proxy"]),
    ("GET", "/healthz/ping", "get", &["healthz", "proxy"]),
    ("GET", "/healthz/log", "get", &["healthz", "proxy"]),
    ("GET", "/healthz/syncloop", "get", &["healthz", "proxy"]),
    ("GET", "/pods", "get", &["pods", "proxy"]),
    ("GET", "/pods/", "get", &["pods", "proxy"]),
    ("GET", "/runningpods/", "get", &["pods", "proxy"]),
    ("GET", "/allocatedPods", "get", &["pods", "proxy"]),
    ("GET", "/configz", "get", &["configz", "proxy"]),
    ("GET", "/statusz", "get", &["statusz"]),
    ("GET", "/flagz", "get", &["configz"]),
    ("GET", "/stats/summary", "get", &["stats"]),
    ("GET", "/stats/", "get", &["stats"]),
    ("GET", "/metrics", "get", &["metrics"]),
    ("GET", "/metrics/cadvisor", "get", &["metrics"]),
    ("GET", "/metrics/resource", "get", &["metrics"]),
    ("GET", "/metrics/probes", "get", &["metrics"]),
    ("GET", "/metrics/slis", "get", &["metrics"]),
    ("DELETE", "/metrics/slis", "delete", &["metrics"]),
    ("POST", "/logs/", "create", &["log"]),
    ("GET", "/logs/", "get", &["log"]),
    ("GET", "/logs/syslog", "get", &["log"]),
    ("GET", "/logs", "get", &["log"]),
    ("GET", "/stats/summary/", "get", &["stats"]),
    ("POST", "/exec/ns/pod/c/", "create", &["proxy"]),
    ("GET", "/logs/../exec/ns/pod/c", "get", &["log"]),
    ("GET", "/containerLogs/ns/pod/c", "get", &["proxy"]),
    ("POST", "/checkpoint/ns/pod/c", "create", &["checkpoint"]),
    ("GET", "/debug/pprof/profile", "get", &["proxy"]),
    ("PUT", "/debug/flags/v", "update", &["proxy"]),
    ("GET", "/exec/ns/pod/c", "create", &["proxy"]),
    ("POST", "/exec/ns/pod/c", "create", &["proxy"]),
    ("POST", "/exec/ns/pod/uid/c", "create", &["proxy"]),
    ("GET", "/attach/ns/pod/c", "create", &["proxy"]),
    ("POST", "/attach/ns/pod/c", "create", &["proxy"]),
    ("GET", "/portForward/ns/pod", "create", &["proxy"]),
    ("POST", "/portForward/ns/pod", "create", &["proxy"]),
    ("POST", "/run/ns/pod/c", "create", &["proxy"]),
    ("GET", "/run/ns/pod/c", "create", &["proxy"]),
    ("GET", "/", "get", &["proxy"]),
    ("GET", "/nothing", "get", &["proxy"]),
    ("GET", "/%65xec/ns/pod/c", "get", &["proxy"]),
    ("GET", "//exec/ns/pod/c", "get", &["proxy"]),
    ("GET", "/healthz/..%2fexec", "get", &["healthz", "proxy"]),
    ("DELETE", "/pods", "delete", &["pods", "proxy"]),
    ("PATCH", "/configz", "patch", &["configz", "proxy"]),
];

/// Every subresource that a right can be on.
const SUBRESOURCES: [&str; 9] =
    ["pods", "healthz", "configz", "statusz", "stats", "metrics", "log", "checkpoint", "proxy"];

const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// The API with its authority, and the API server that it asks.
struct Api {
    app: Router,
    authority: FakeAuthority,
    reviews: Arc<FakeReviews>,
}

/// What a request comes with.
#[derive(Default)]
struct Credentials {
    certificates: Vec<CertificateDer<'static>>,
    authorization: Option<&'static str>,
}

impl Api {
    fn new(streaming: StreamingVerbs) -> Self {
        let authority = FakeAuthority::new();
        let authorities = ClientAuthorities::from_pem(authority.certificate().unwrap().as_bytes()).unwrap();
        let reviews = Arc::<FakeReviews>::default();
        let asked: Arc<dyn Reviews> = reviews.clone();
        // Nothing is kept, so that each right counts alone.
        let authenticator = Authenticator::new(AuthenticatorSettings {
            authorities: watch::channel(Some(Arc::new(authorities))).1,
            tokens: Some((asked.clone(), Duration::ZERO)),
            is_anonymous_permitted: false,
        });
        let authorizer = Authorizer::webhook(asked, "host1".to_owned(), Duration::ZERO, Duration::ZERO);
        let guard = Guard { authenticator, authorizer, streaming };
        let app = secured(&deps(), guard, true, RequestMetrics::new(&Metrics::default()));
        Self { app, authority, reviews }
    }

    async fn ask(&self, method: &str, path: &str, credentials: Credentials) -> (StatusCode, String) {
        ask(&self.app, method, path, credentials).await
    }

    /// A certificate of this authority.
    fn certificate(&self, authority: &FakeAuthority, age: Duration) -> Credentials {
        let key = PrivateKey::generate().unwrap();
        let request = certificate_request(&key, "operators", "robot").unwrap();
        let pem = authority.issue(&request, Timestamp::now() - age, Duration::from_secs(3600)).unwrap();
        let certificates = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
        Credentials { certificates, authorization: None }
    }
}

fn deps() -> EndpointDeps {
    let (_, pleg) = Pleg::new(Arc::new(FakeRuntime::new()), StdRng::seed_from_u64(1));
    let logs = SystemLogs {
        is_enabled: true,
        has_query: true,
        dir: "/nonexistent".into(),
        journalctl: "/nonexistent".into(),
    };
    let clock = WallClock::system();
    EndpointDeps {
        healthz: Healthz::new(Heartbeats::default(), || None, clock.now()),
        logs: container_logs::testing::deps(),
        streams: streams::testing::of_empty_node(),
        pods: PodLists {
            pods: PodDirectory::of(StatusCache::default()),
            observed: pleg.cache().clone(),
            has_allocated: true,
        },
        scraped: Scraped::default(),
        stats: Stats::default(),
        pages: NodePages {
            configuration: EffectiveConfig::default(),
            zpages: ZPages {
                started: clock.now(),
                clock: clock.clone(),
                has_status: true,
                flags: Some([].into()),
            },
            logs,
            checkpoints: Some(Checkpoints {
                pods: PodDirectory::of(StatusCache::default()),
                observed: pleg.cache().clone(),
                runtime: Arc::new(FakeRuntime::new()),
                dir: "/nonexistent".into(),
                clock,
            }),
            debug: DebugHandlers { flags: None, has_profiling: true },
        },
    }
}

async fn send(app: &Router, method: &str, path: &str, credentials: Credentials) -> Response {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
    *request.uri_mut() = path.parse().unwrap();
    if let Some(authorization) = credentials.authorization {
        request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static(authorization));
    }
    request.extensions_mut().insert(ClientCertificates(credentials.certificates.into()));
    app.clone().oneshot(request).await.unwrap()
}

async fn ask(app: &Router, method: &str, path: &str, credentials: Credentials) -> (StatusCode, String) {
    let response = send(app, method, path, credentials).await;
    let status = response.status();
    if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) {
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        assert!(
            response.extensions().get::<Refused>().is_some(),
            "it would count as a use of the connection"
        );
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn token(authorization: &'static str) -> Credentials {
    Credentials { certificates: Vec::new(), authorization: Some(authorization) }
}

#[tokio::test]
async fn no_path_answers_without_accepted_credentials() {
    let api = Api::new(StreamingVerbs::Create);
    let unauthorized = (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned());
    for (method, path, ..) in PATHS {
        for credentials in [
            Credentials::default(),
            api.certificate(&FakeAuthority::new(), Duration::ZERO),
            api.certificate(&api.authority, Duration::from_secs(7200)),
            token("Bearer bad"),
            token("Basic Z29vZDpnb29k"),
        ] {
            let what = credentials.authorization;
            assert_eq!(api.ask(method, path, credentials).await, unauthorized, "{method} {path} {what:?}");
        }
    }
}

#[tokio::test]
async fn a_path_answers_with_each_of_its_rights_and_no_other() {
    let api = Api::new(StreamingVerbs::Create);
    for (method, path, verb, subresources) in PATHS {
        let forbidden = format!(
            "Forbidden (user=robot, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
            subresources.join(" ")
        );
        for subresource in SUBRESOURCES {
            for right in VERBS {
                api.reviews.permit(&[&format!("robot {right} host1/{subresource}")]);
                let (status, text) = api.ask(method, path, token("Bearer good")).await;
                if right == verb && subresources.contains(&subresource) {
                    let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
                    assert!(!refused.contains(&status), "{method} {path} with {right} {subresource}");
                } else {
                    assert_eq!(
                        (status, text.as_str()),
                        (StatusCode::FORBIDDEN, forbidden.as_str()),
                        "{method} {path} with {right} {subresource}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_slash_at_the_end_of_a_path_changes_nothing_where_the_stock_kubelet_ignores_it() {
    let api = Api::new(StreamingVerbs::Create);
    let rights: Vec<String> = SUBRESOURCES
        .iter()
        .flat_map(|subresource| ["get", "create"].map(|verb| format!("robot {verb} host1/{subresource}")))
        .collect();
    api.reviews.permit(&rights.iter().map(String::as_str).collect::<Vec<_>>());
    for (method, path) in [
        ("GET", "/pods"),
        ("GET", "/runningpods"),
        ("GET", "/allocatedPods"),
        ("GET", "/allocatedPods/ns/pod"),
        ("GET", "/allocatedPods/ns/pod/uid"),
        ("GET", "/stats/summary"),
        ("GET", "/containerLogs/ns/pod/c"),
        ("POST", "/checkpoint/ns/pod/c"),
        ("GET", "/exec/ns/pod/c"),
        ("POST", "/exec/ns/pod/uid/c"),
        ("GET", "/attach/ns/pod/c"),
        ("POST", "/attach/ns/pod/uid/c"),
        ("GET", "/portForward/ns/pod"),
        ("POST", "/portForward/ns/pod/uid"),
        ("POST", "/run/ns/pod/c"),
        ("POST", "/run/ns/pod/uid/c"),
    ] {
        let expected = api.ask(method, path, token("Bearer good")).await;
        assert_ne!(expected.1, "404 page not found\n", "{path}");
        let found = api.ask(method, &format!("{path}/"), token("Bearer good")).await;
        assert_eq!(found, expected, "{method} {path}/");
    }
    for path in ["/healthz/", "/metrics/", "/metrics/cadvisor/", "/configz/", "/statusz/"] {
        let (status, _) = api.ask("GET", path, token("Bearer good")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_path_of_a_directory_leads_to_it() {
    let api = Api::new(StreamingVerbs::Create);
    api.reviews.permit(&["robot get host1/log", "robot get host1/proxy"]);
    let read_only = read_only(&deps(), RequestMetrics::new(&Metrics::default()));
    for (app, path, location) in [
        (&api.app, "/logs?query=kubelet", "/logs/?query=kubelet"),
        (&api.app, "/debug/pprof", "/debug/pprof/"),
        (&read_only, "/logs", "/logs/"),
        (&read_only, "/exec", "/exec/"),
        (&read_only, "/runningpods", "/runningpods/"),
    ] {
        let moved = send(app, "GET", path, token("Bearer good")).await;
        assert_eq!(moved.status(), StatusCode::TEMPORARY_REDIRECT, "{path}");
        assert_eq!(moved.headers()[LOCATION], location);
    }
}

#[tokio::test]
async fn a_right_on_one_path_opens_no_other_by_its_spelling() {
    let api = Api::new(StreamingVerbs::Create);
    api.reviews.permit(&["robot get host1/healthz"]);
    for path in ["/healthz/../exec/ns/pod/c", "/healthz/..%2f..%2fexec", "/healthz//", "/healthz/ping/.."] {
        let (status, _) = api.ask("GET", path, token("Bearer good")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(api.ask("GET", "/healthz", token("Bearer good")).await, (StatusCode::OK, "ok".to_owned()));
}

#[tokio::test]
async fn a_certificate_of_the_authority_is_authorized_by_its_name() {
    let api = Api::new(StreamingVerbs::Create);
    api.reviews.permit(&["robot get host1/healthz"]);
    let certificate = api.certificate(&api.authority, Duration::ZERO);
    assert_eq!(api.ask("GET", "/healthz", certificate).await, (StatusCode::OK, "ok".to_owned()));
}

/// Whoever was let in without them remains a stranger, whose connection makes room for others.
#[tokio::test]
async fn a_connection_is_somebodys_once_their_credentials_are_accepted() {
    let reviews: Arc<dyn Reviews> = Arc::<FakeReviews>::default();
    let authenticator = Authenticator::new(AuthenticatorSettings {
        authorities: watch::channel(None).1,
        tokens: Some((reviews, Duration::ZERO)),
        is_anonymous_permitted: true,
    });
    let guard =
        Guard { authenticator, authorizer: Authorizer::AlwaysAllow, streaming: StreamingVerbs::Create };
    let app = secured(&deps(), guard, true, RequestMetrics::new(&Metrics::default()));
    for (authorization, status, expected) in
        [(None, 200, false), (Some("Bearer bad"), 401, false), (Some("Bearer good"), 200, true)]
    {
        let client = Client { source: IpAddr::from([10, 0, 0, 1]).into(), let_in: LetIn::default() };
        let mut request = Request::get("/healthz").body(Body::empty()).unwrap();
        request.extensions_mut().insert(client.clone());
        let header = authorization.map(|value| (AUTHORIZATION, HeaderValue::from_static(value)));
        request.headers_mut().extend(header);
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status, "{authorization:?}");
        assert_eq!(client.let_in.get(), expected, "{authorization:?}");
    }
}

#[tokio::test]
async fn streams_over_websocket_need_only_get_with_the_switch() {
    let api = Api::new(StreamingVerbs::OfMethod);
    api.reviews.permit(&["robot get host1/proxy"]);
    let (status, _) = api.ask("GET", "/exec/ns/pod/c", token("Bearer good")).await;
    assert_ne!(status, StatusCode::FORBIDDEN);
    let (status, _) = api.ask("POST", "/exec/ns/pod/c", token("Bearer good")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_without_an_answer_is_an_error_of_the_node() {
    let api = Api::new(StreamingVerbs::Create);
    api.reviews.permit(&["robot get host1/healthz"]);
    // The token's user is known before the API server fails.
    let certificate = api.certificate(&api.authority, Duration::ZERO);
    api.reviews.fail(5);
    let text = "Authorization error (user=robot, verb=get, resource=nodes, subresource=healthz)";
    let failed = (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned());
    assert_eq!(api.ask("GET", "/healthz", certificate).await, failed);
    api.reviews.fail(5);
    let (status, _) = api.ask("GET", "/healthz", token("Bearer good")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_credentials_only_the_open_paths_are_read() {
    let app = read_only(&deps(), RequestMetrics::new(&Metrics::default()));
    let get = async |path| ask(&app, "GET", path, Credentials::default()).await;
    assert_eq!(get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let disabled = (StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.\n".to_owned());
    for path in ["/exec/ns/pod/c", "/run/", "/logs/", "/logs/syslog", "/runningpods/", "/debug/pprof/heap"] {
        assert_eq!(get(path).await, disabled, "{path}");
        assert_eq!(ask(&app, "POST", path, Credentials::default()).await, disabled, "{path}");
    }
    let none = (StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    for path in ["/configz", "/statusz", "/checkpoint/ns/pod/c", "/flagz", "/"] {
        assert_eq!(get(path).await, none, "{path}");
    }
}

/// One request for each row of the table of endpoints, the first of [`PATHS`] that it includes.
#[tokio::test]
async fn every_endpoint_is_served_and_counted_as_the_table_says() {
    let registry = Metrics::default();
    let metrics = RequestMetrics::new(&registry);
    let (deps, guard) = (deps(), || Guard {
        authenticator: Authenticator::new(AuthenticatorSettings {
            authorities: watch::channel(None).1,
            tokens: None,
            is_anonymous_permitted: true,
        }),
        authorizer: Authorizer::AlwaysAllow,
        streaming: StreamingVerbs::Create,
    });
    let served = secured(&deps, guard(), true, metrics.clone());
    let disabled = secured(&deps, guard(), false, metrics.clone());
    let open = read_only(&deps, metrics);
    let not_found = (StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    for endpoint in ENDPOINTS {
        let request = PATHS.iter().find(|(_, path, ..)| find(path) == endpoint);
        let Some((method, path, ..)) = request else {
            assert_eq!(endpoint.path, "/pprof", "has no request");
            continue;
        };
        let answer = ask(&served, method, path, Credentials::default()).await;
        assert_ne!(answer, not_found, "{path}");
        let expected = match endpoint.without_debugging {
            WithoutDebugging::Served => answer,
            WithoutDebugging::Disabled => {
                (StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.\n".to_owned())
            }
            WithoutDebugging::NotFound => not_found.clone(),
        };
        for (app, server) in [(&disabled, "readwrite"), (&open, "readonly")] {
            let (status, text) = ask(app, method, path, Credentials::default()).await;
            assert_eq!((status, text.as_str()), (expected.0, expected.1.as_str()), "{path} {server}");
            let labels = format!(
                "{{method=\"{method}\",path=\"{}\",server_type=\"{server}\",long_running=\"{}\"}}",
                endpoint.metric_label, endpoint.is_long_running
            );
            let counted = registry.encode();
            assert!(
                counted.contains(&format!("kubelet_http_requests_total{labels} ")),
                "{labels}\n{counted}"
            );
        }
    }
}

/// go-restful's routes answer no other method than theirs, not even HEAD. Routes of Go's HTTP library answer every method.
#[tokio::test]
async fn other_methods_are_answered_where_the_stock_kubelet_does() {
    let (api, robot) = (Api::new(StreamingVerbs::Create), "robot  host1/");
    let all = SUBRESOURCES.map(|subresource| [robot, subresource].concat());
    let creates = SUBRESOURCES.map(|subresource| format!("robot create host1/{subresource}"));
    let rights: Vec<&str> = all.iter().chain(&creates).map(String::as_str).collect();
    api.reviews.permit(&rights);
    for (path, allowed) in [
        ("/pods", Some("GET")),
        ("/runningpods/", Some("GET")),
        ("/allocatedPods", Some("GET")),
        ("/allocatedPods/ns/pod", Some("GET")),
        ("/containerLogs/ns/pod/c", Some("GET")),
        ("/logs/", Some("GET")),
        ("/logs/syslog", Some("GET")),
        ("/debug/pprof/heap", Some("GET")),
        ("/stats/summary", Some("GET, POST")),
        ("/exec/ns/pod/c", Some("GET, POST")),
        ("/attach/ns/pod/uid/c", Some("GET, POST")),
        ("/portForward/ns/pod", Some("GET, POST")),
        ("/run/ns/pod/c", Some("POST")),
        ("/checkpoint/ns/pod/c", Some("POST")),
        ("/healthz", None),
        ("/healthz/ping", None),
        ("/configz", None),
        ("/statusz", None),
        ("/flagz", None),
        ("/metrics", None),
        ("/metrics/probes", None),
        ("/metrics/slis", None),
    ] {
        let response = send(&api.app, "HEAD", path, token("Bearer good")).await;
        let status = if allowed.is_some() { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::OK };
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.headers().get(ALLOW).map(|value| value.to_str().unwrap()), allowed, "{path}");
        if allowed == Some("GET") {
            let refused = (StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed".to_owned());
            assert_eq!(api.ask("POST", path, token("Bearer good")).await, refused, "{path}");
        }
    }
    assert_eq!(api.ask("POST", "/healthz", token("Bearer good")).await, (StatusCode::OK, "ok".to_owned()));
}

//! Responses, what they are cached for, and real programs as providers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::RegistryLocation;
use hostlet_base::settings::{CredentialProvider, CredentialProviders, TokenAttributes};
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::super::{
    AccountDescription, AccountError, AccountToken, DockerConfig, Login, LoginSource, ObjectIdentity,
    PodAccount,
};
use super::cache::{AccountKey, ResponseCache};
use super::*;

const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

fn response(fields: &str) -> String {
    format!(r#"{{"apiVersion": "{V1}", "kind": "CredentialProviderResponse", {fields}}}"#)
}

fn logins(user: &str) -> DockerConfig {
    let login = Login::new(user, "p");
    DockerConfig { logins: [("r.io".to_owned(), login)].into() }
}

#[test]
fn a_request_equals_the_stock_kubelets() {
    let parsed = |request: Vec<u8>| serde_json::from_slice::<serde_json::Value>(&request).unwrap();
    assert_eq!(
        parsed(protocol::request(V1, "r.io/a", None)),
        json!({"kind": "CredentialProviderRequest", "apiVersion": V1, "image": "r.io/a"})
    );
    let annotations = [("a".to_owned(), "b".to_owned())].into();
    assert_eq!(
        parsed(protocol::request(V1, "r.io/a", Some(("t", &annotations)))),
        json!({
            "kind": "CredentialProviderRequest", "apiVersion": V1, "image": "r.io/a", "serviceAccountToken": "t",
            "serviceAccountAnnotations": {"a": "b"},
        })
    );
}

#[test]
fn responses_are_parsed() {
    let auth = r#""auth": {"r.io": {"username": "u", "password": "p"}}"#;
    let parsed = |fields: &str| ProviderResponse::parse(response(fields).as_bytes(), V1).unwrap();
    let full = parsed(&format!(r#""cacheKeyType": "Registry", "cacheDuration": "1h30m", {auth}"#));
    assert_eq!(full.cache_key_type, CacheKeyType::Registry);
    assert_eq!(full.cache_duration, Some(Duration::from_secs(5400)));
    assert_eq!(full.config, logins("u"));
    let least = parsed(r#""cacheKeyType": "Global""#);
    assert_eq!((least.cache_duration, least.config.logins.len()), (None, 0));
    let nulls =
        r#""cacheKeyType": "Image", "cacheDuration": null, "auth": {"a": null, "b": {"username": null}}"#;
    assert!(parsed(nulls).config.logins.into_values().all(|login| login.username.is_empty()));
    let past = parsed(r#""cacheKeyType": "Image", "cacheDuration": "-5s", "auth": null"#);
    assert_eq!(past.cache_duration, Some(Duration::ZERO));
}

#[test]
fn an_unusable_response_is_an_error_without_its_credentials() {
    let json = "its response is no CredentialProviderResponse in JSON";
    for (output, expected) in [
        (String::new(), json),
        ("{".to_owned(), json),
        ("hunter2".to_owned(), json),
        (response(r#""cacheKeyType": "Image", "auth": "hunter2""#), json),
        (response(r#""cacheKeyType": "Image", "hunter2": 1"#), json),
        (response(r#""cacheKeyType": "Image", "auth": {"r.io": {"token": "hunter2"}}"#), json),
        (response(r#""cacheKeyType": "Image", "cacheDuration": 60"#), json),
        (
            response(r#""auth": {"r.io": {"password": "hunter2"}}"#),
            "its response has cacheKeyType \"\", expected",
        ),
        (response(r#""cacheKeyType": "Node""#), "its response has cacheKeyType \"Node\", expected"),
        ("{}".to_owned(), "it responded with apiVersion \"\" and kind \"\""),
        (response(r#""cacheKeyType": "Image""#).replace("/v1", "/v1beta1"), "it responded with apiVersion"),
    ] {
        let error = ProviderResponse::parse(output.as_bytes(), V1).unwrap_err().to_string();
        assert!(error.starts_with(expected) && !error.contains("hunter2"), "{output}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_is_cached_for_what_it_applies_to() {
    let start = Instant::now();
    let hour = Duration::from_secs(3600);
    let images = ["r.io/a", "r.io/b", "r.io:5000/a", "other.io/a"];
    for (key_type, expected) in [
        (CacheKeyType::Image, [true, false, false, false]),
        (CacheKeyType::Registry, [true, true, false, false]),
        (CacheKeyType::Global, [true, true, true, true]),
    ] {
        let mut cache = ResponseCache::default();
        cache.insert(key_type, "r.io/a", None, logins("u"), hour, start);
        assert_eq!(images.map(|image| cache.get(image, None, start).is_some()), expected, "{key_type:?}");
        assert!(cache.get("r.io/a", None, start + hour).is_some());
        assert!(cache.get("r.io/a", None, start + hour + Duration::from_nanos(1)).is_none());
    }
    let mut cache = ResponseCache::default();
    cache.insert(CacheKeyType::Image, "r.io/a", None, logins("u"), Duration::ZERO, start);
    assert!(cache.get("r.io/a", None, start).is_none(), "zero means not at all");
    cache.insert(CacheKeyType::Global, "x", None, logins("global"), Duration::MAX, start);
    cache.insert(CacheKeyType::Image, "r.io/a", None, logins("image"), hour, start);
    assert_eq!(cache.get("r.io/a", None, start), Some(&logins("image")), "the most specific one");
    assert_eq!(cache.get("r.io/a", None, start + 2 * hour), Some(&logins("global")));
}

/// Scripts as providers.
struct Programs(TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Providers that run these scripts, each for images of `r.io`; each run is noted in a file of the provider's name.
    fn plugins(&self, scripts: &[(&str, &str)]) -> ProviderPlugins {
        self.plugins_with(scripts, None)
    }

    /// The same with service account tokens.
    fn plugins_with(&self, scripts: &[(&str, &str)], token: Option<TokenAttributes>) -> ProviderPlugins {
        let provider = |(name, script): &(&str, &str)| {
            let path = self.0.path().join(name);
            let note = self.0.path().join(format!("{name}.runs"));
            // Renamed into place: a file that is open for writing anywhere cannot be executed.
            let text = format!("#!/bin/sh\necho run >> {}\n{script}\n", note.display());
            fs::write(path.with_extension("new"), text).unwrap();
            fs::set_permissions(path.with_extension("new"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::rename(path.with_extension("new"), &path).unwrap();
            CredentialProvider {
                name: name.to_string(),
                match_images: vec![RegistryLocation::parse("r.io").unwrap()],
                default_cache_duration: Duration::from_secs(3600),
                api_version: V1.to_owned(),
                args: vec!["first".to_owned(), "second one".to_owned()],
                env: vec![("GREETING".to_owned(), "hello".to_owned())],
                token: token.clone(),
            }
        };
        let providers = scripts.iter().map(provider).collect();
        let (bin_dir, digest) = (self.0.path().to_owned(), "sha256:0".to_owned());
        ProviderPlugins::new(&CredentialProviders { bin_dir, providers, digest })
    }

    fn runs(&self, name: &str) -> usize {
        let note = fs::read_to_string(self.0.path().join(format!("{name}.runs")));
        note.map_or(0, |text| text.lines().count())
    }
}

fn respond(user: &str, more: &str) -> String {
    let auth = format!(r#""auth": {{"r.io": {{"username": "{user}", "password": "p"}}}}{more}"#);
    format!("cat <<'END'\n{}\nEND", response(&format!(r#""cacheKeyType": "Registry", {auth}"#)))
}

async fn users(plugins: &ProviderPlugins, image: &str) -> Vec<String> {
    plugins.keyring(image, None).await.lookup(image).into_iter().map(|found| found.login.username).collect()
}

#[tokio::test]
async fn a_program_gets_its_request_arguments_and_variables() {
    let programs = Programs::new();
    let checks = r#"request=$(cat); [ "$1" = first ] && [ "$2" = "second one" ] && [ "$GREETING" = hello ] || exit 1
[ -n "$PATH" ] || exit 2
case "$request" in *'"image":"r.io/team/a"'*) ;; *) exit 3 ;; esac"#;
    let plugins = programs.plugins(&[("p", &format!("{checks}\n{}", respond("me", "")))]);
    assert_eq!(users(&plugins, "r.io/team/a").await, ["me"]);
    // Cached for the registry; no other is asked about.
    assert_eq!(users(&plugins, "r.io/other").await, ["me"]);
    assert_eq!(users(&plugins, "r.example.com/a").await, Vec::<String>::new());
    assert_eq!(programs.runs("p"), 1);
}

#[tokio::test]
async fn concurrent_requests_share_a_run_and_a_response_that_must_not_be_cached_is_not() {
    let programs = Programs::new();
    let plugins =
        programs.plugins(&[("p", &format!("sleep 0.3\n{}", respond("me", r#", "cacheDuration": "0s""#)))]);
    let (first, second) = tokio::join!(users(&plugins, "r.io/a"), users(&plugins, "r.io/a"));
    assert_eq!((first, second), (vec!["me".to_owned()], vec!["me".to_owned()]));
    assert_eq!(programs.runs("p"), 1);
    assert_eq!(users(&plugins, "r.io/a").await, ["me"]);
    assert_eq!(programs.runs("p"), 2);
}

#[tokio::test]
async fn one_that_fails_leaves_the_logins_of_the_others() {
    let programs = Programs::new();
    let (one, two) = (respond("one", ""), respond("two", ""));
    let scripts = [
        ("one", one.as_str()),
        ("bad", "echo hunter2; exit 3"),
        ("odd", "echo hunter2"),
        ("two", two.as_str()),
    ];
    let plugins = programs.plugins(&scripts);
    let metrics = Metrics::default();
    plugins.register(&metrics);
    assert_eq!(users(&plugins, "r.io/a").await, ["one", "two"]);
    let failures = plugins.failures("r.io/a");
    let names: Vec<&str> = failures.iter().map(|failure| failure.provider.as_str()).collect();
    assert_eq!((names, failures[0].error.as_str()), (vec!["bad", "odd"], "it failed (exit status: 3)"));
    assert_eq!(plugins.failures("other.io/a"), []);
    // Failures are not cached.
    assert_eq!(users(&plugins, "r.io/a").await, ["one", "two"]);
    assert_eq!(["one", "bad", "odd", "two"].map(|name| programs.runs(name)), [1, 2, 2, 1]);
    let text = metrics.encode();
    for line in [
        "kubelet_credential_provider_plugin_errors_total{plugin_name=\"bad\"} 2\n",
        "kubelet_credential_provider_plugin_duration_count{plugin_name=\"odd\"} 2\n",
        "kubelet_credential_provider_config_info{hash=\"sha256:0\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(
        !text.contains("errors_total{plugin_name=\"odd\"}"),
        "upstream counts only runs that failed: {text}"
    );
}

#[tokio::test]
async fn a_hanging_one_delays_only_pulls_that_need_it_and_is_killed_with_the_last_of_them() {
    let programs = Programs::new();
    let marker = programs.0.path().join("ended");
    let script = format!("sleep 1\necho > {}", marker.display());
    let plugins = programs.plugins(&[("p", &script)]);
    assert!(tokio::time::timeout(Duration::from_millis(300), users(&plugins, "r.io/a")).await.is_err());
    assert_eq!(users(&plugins, "free.io/a").await, Vec::<String>::new());
    sleep(Duration::from_secs(2)).await;
    assert!(!marker.exists(), "it was killed");
}

/// A pod's service account, whose tokens are numbered.
struct Account {
    pod: &'static str,
    annotations: Vec<(&'static str, &'static str)>,
    tokens: Mutex<u32>,
}

impl Account {
    fn of(pod: &'static str, annotations: &[(&'static str, &'static str)]) -> Self {
        Self { pod, annotations: annotations.to_vec(), tokens: Mutex::new(0) }
    }
}

fn account_identity() -> ObjectIdentity {
    let [namespace, name, uid] = ["ns", "builder", "7"].map(str::to_owned);
    ObjectIdentity { namespace, name, uid }
}

#[async_trait]
impl PodAccount for Account {
    fn pod_uid(&self) -> &str {
        self.pod
    }

    async fn describe(&self) -> Result<AccountDescription, AccountError> {
        let annotations = self.annotations.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Ok(AccountDescription { identity: account_identity(), annotations })
    }

    async fn token(&self, account: &ObjectIdentity, audience: &str) -> Result<AccountToken, AccountError> {
        assert_eq!(*account, account_identity());
        let mut tokens = self.tokens.lock();
        *tokens += 1;
        let value = format!("{audience}-{}-{tokens}", self.pod);
        Ok(AccountToken { value, renewed_after: Duration::from_secs(2880) })
    }
}

fn token_attributes(is_cached_by_token: bool, is_required: bool) -> Option<TokenAttributes> {
    Some(TokenAttributes {
        audience: "r.io".to_owned(),
        is_cached_by_token,
        is_required,
        required_annotations: ["role".to_owned()].into(),
        optional_annotations: ["tenant".to_owned()].into(),
    })
}

/// Users and sources of the logins for `image`.
async fn found(
    plugins: &ProviderPlugins,
    account: Option<&dyn PodAccount>,
    image: &str,
) -> Vec<(String, LoginSource)> {
    let logins = plugins.keyring(image, account).await.lookup(image);
    logins.into_iter().map(|found| (found.login.username, found.source)).collect()
}

#[tokio::test]
async fn a_response_for_a_service_account_is_for_all_of_its_pods() {
    let programs = Programs::new();
    let check = r#"case "$(cat)" in *'"serviceAccountToken":"r.io-p1-1"'*) ;; *) exit 1 ;; esac"#;
    let script = format!("{check}\n{}", respond("me", ""));
    let plugins = programs.plugins_with(&[("p", &script)], token_attributes(false, true));
    let expected = [("me".to_owned(), LoginSource::ServiceAccount(account_identity()))];
    let (first, second) =
        (Account::of("p1", &[("role", "a")]), Account::of("p2", &[("role", "a"), ("x", "y")]));
    assert_eq!(found(&plugins, Some(&first), "r.io/a").await, expected);
    assert_eq!(found(&plugins, Some(&second), "r.io/b").await, expected);
    assert_eq!(
        (programs.runs("p"), *second.tokens.lock()),
        (1, 0),
        "no token is needed for a cached response"
    );
    // Another annotation that it gets: another request, which the script rejects.
    let other = Account::of("p3", &[("role", "a"), ("tenant", "t")]);
    assert_eq!(found(&plugins, Some(&other), "r.io/a").await, []);
    // Without a required annotation or an account it is not asked.
    assert_eq!(found(&plugins, Some(&Account::of("p4", &[("tenant", "t")])), "r.io/a").await, []);
    assert_eq!(found(&plugins, None, "r.io/a").await, []);
    assert_eq!(programs.runs("p"), 2);
}

#[tokio::test]
async fn a_response_for_a_token_is_for_its_pod_only() {
    let programs = Programs::new();
    let script = respond("me", "");
    let plugins = programs.plugins_with(&[("p", &script)], token_attributes(true, false));
    let (first, second) = (Account::of("p1", &[("role", "a")]), Account::of("p2", &[("role", "a")]));
    for account in [&first, &second, &first] {
        assert_eq!(found(&plugins, Some(account), "r.io/a").await.len(), 1);
    }
    assert_eq!(programs.runs("p"), 2);
    // A pod without a service account: as a provider without tokens.
    assert_eq!(found(&plugins, None, "r.io/a").await, [("me".to_owned(), LoginSource::Node)]);
    assert_eq!(programs.runs("p"), 3);
}

#[tokio::test]
async fn a_token_is_a_password_only_where_no_other_pod_gets_it() {
    let programs = Programs::new();
    let echo = respond("me", "").replace(r#""password": "p""#, r#""password": "r.io-p1-1""#);
    for (is_cached_by_token, number) in [(false, 0), (true, 1)] {
        let plugins = programs.plugins_with(&[("p", &echo)], token_attributes(is_cached_by_token, true));
        let account = Account::of("p1", &[("role", "a")]);
        assert_eq!(found(&plugins, Some(&account), "r.io/a").await.len(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn responses_of_accounts_are_cached_apart() {
    let start = Instant::now();
    let key = |pod: Option<&str>| AccountKey {
        identity: account_identity(),
        annotations: [].into(),
        pod: pod.map(str::to_owned),
    };
    let (one, two) = (key(Some("p1")), key(Some("p2")));
    let mut cache = ResponseCache::default();
    let hour = Duration::from_secs(3600);
    cache.insert(CacheKeyType::Global, "r.io/a", Some(one.clone()), logins("u"), hour, start);
    assert!(cache.get("r.io/b", Some(&one), start).is_some());
    for other in [None, Some(&two), Some(&key(None))] {
        assert!(cache.get("r.io/b", other, start).is_none());
    }
}

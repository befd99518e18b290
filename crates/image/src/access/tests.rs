//! Which images need a check, whose credentials suffice, and that records survive the daemon.

use std::time::Duration;

use hostlet_base::WallClock;
use hostlet_base::settings::ImageVerification;
use hostlet_runtime::cri::ImageInfo;
use hostlet_store::{Store, Table};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::advance;

use super::policy::needs_check;
use super::record::{Access, Admission};
use super::stock::StockRecords;
use super::*;
use crate::credentials::{Login, LoginSource, ObjectIdentity, SourcedLogin};

#[test]
fn policies_are_those_of_the_stock_kubelet() {
    let preloaded = |policy: &ImageVerification| needs_check(policy, "r.io/a:1", false);
    let pulled = |policy: &ImageVerification| needs_check(policy, "r.io/a:1", true);
    for (policy, expected) in [
        (ImageVerification::Disabled, (false, false)),
        (ImageVerification::Never, (false, false)),
        (ImageVerification::ExceptPreloaded, (false, true)),
        (ImageVerification::ExceptAllowlisted(vec![]), (true, true)),
        (ImageVerification::ExceptAllowlisted(vec!["r.io/a".to_owned()]), (false, false)),
        (ImageVerification::Always, (true, true)),
    ] {
        assert_eq!((preloaded(&policy), pulled(&policy)), expected, "{policy:?}");
    }
    let digest = format!("r.io/team/a:1@sha256:{}", "a".repeat(64));
    for (pattern, image, is_exempt) in [
        ("r.io/team/a", "r.io/team/a", true),
        ("r.io/team/a", digest.as_str(), true),
        ("r.io/team/a", "r.io/team/ab:1", false),
        ("r.io/team/a", "r.io/team/a/b:1", false),
        ("r.io/team/*", "r.io/team/a:1", true),
        ("r.io/team/*", "r.io/team/a/b:1", true),
        ("r.io/team/*", "r.io/teams/a:1", false),
        ("r.io:5000/*", "r.io:5000/a", true),
        // As written: short names are not completed.
        ("busybox", "busybox:1", true),
        ("busybox", "docker.io/library/busybox:1", false),
    ] {
        let policy = ImageVerification::ExceptAllowlisted(vec!["x.io/y".to_owned(), pattern.to_owned()]);
        assert_eq!(!needs_check(&policy, image, true), is_exempt, "{pattern} for {image}");
    }
}

fn identity(name: &str, uid: &str) -> ObjectIdentity {
    ObjectIdentity { namespace: "default".to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

fn login(password: &str) -> Login {
    Login::new("me", password)
}

fn of_secret(name: &str, uid: &str, password: &str) -> SourcedLogin {
    SourcedLogin { login: login(password), source: LoginSource::Secret(identity(name, uid)) }
}

fn of_account(name: &str, uid: &str) -> SourcedLogin {
    SourcedLogin { login: login("token"), source: LoginSource::ServiceAccount(identity(name, uid)) }
}

fn of_node() -> SourcedLogin {
    SourcedLogin { login: login("pw"), source: LoginSource::Node }
}

/// The access after pulls with these logins.
fn access(logins: &[SourcedLogin]) -> Access {
    let mut access = Access::default();
    logins.iter().for_each(|login| access.merge(Access::of(Some(login))));
    access
}

#[test]
fn a_pod_with_a_known_login_secret_or_service_account_is_admitted() {
    let known = access(&[of_secret("s", "1", "pw"), of_account("a", "7")]);
    assert!(!known.is_open() && known.has_owners());
    let granted_by = |login: &SourcedLogin| Admission::GrantedBy(Access::of(Some(login)));
    let (same_login, new_login) = (of_secret("t", "2", "pw"), of_secret("s", "1", "rotated"));
    for (presented, expected) in [
        (of_secret("s", "1", "pw"), Admission::Granted),
        (same_login.clone(), granted_by(&same_login)),
        (new_login.clone(), granted_by(&new_login)),
        (of_secret("t", "2", "other"), Admission::Unknown),
        // Deleted and created again.
        (of_secret("s", "9", "other"), Admission::Unknown),
        (of_account("a", "7"), Admission::Granted),
        (of_account("a", "8"), Admission::Unknown),
        // Credentials of the node are no proof: the image was not pulled with them.
        (of_node(), Admission::Unknown),
    ] {
        assert_eq!(known.admission(std::slice::from_ref(&presented)), expected, "{presented:?}");
        let among_others = [of_node(), of_secret("x", "x", "x"), presented];
        assert_eq!(known.admission(&among_others), expected);
    }
    assert_eq!(known.admission(&[]), Admission::Unknown);
}

#[test]
fn a_pull_without_a_pods_credentials_opens_an_image_to_all() {
    for login in [None, Some(of_node())] {
        let mut access = access(&[of_secret("s", "1", "pw")]);
        access.merge(Access::of(login.as_ref()));
        assert!(access.is_open());
        access.merge(Access::of(Some(&of_secret("s", "1", "pw"))));
        assert!(access.is_open() && !access.has_owners(), "it stays so");
    }
}

#[test]
fn a_rotated_login_replaces_the_one_of_its_secret() {
    let rotated = access(&[of_secret("s", "1", "old"), of_secret("s", "1", "new")]);
    assert_eq!(rotated, access(&[of_secret("s", "1", "new")]));
    assert_eq!(rotated.admission(&[of_secret("t", "2", "old")]), Admission::Unknown);
}

#[test]
fn checks_add_a_bounded_number_of_secrets() {
    let names: Vec<String> = (0..100).map(|n| format!("s{n}")).collect();
    let logins: Vec<SourcedLogin> = names.iter().map(|name| of_secret(name, "1", "pw")).collect();
    let full = access(&logins);
    assert_eq!(full.admission(&[of_secret("new", "1", "pw")]), Admission::Granted, "but not recorded");
    assert_eq!(full.admission(&[of_secret("s1", "1", "rotated")]), Admission::Unknown);
}

/// Records on a store, as after a restart.
struct Host {
    store: Store,
    clock: WallClock,
    records: PullRecords,
}

impl Host {
    fn new() -> Self {
        Self::on(Store::default(), WallClock::of_tokio("2026-01-01T00:00:00Z".parse().unwrap()))
    }

    fn on(store: Store, clock: WallClock) -> Self {
        let records = PullRecords::new(ImageVerification::ExceptPreloaded, store.clone(), clock.clone());
        Self { store, clock, records }
    }

    /// The same after a restart.
    fn restarted(self) -> Self {
        Self::on(self.store.copy(), self.clock)
    }

    fn verdict(&self, image: &str) -> Verdict {
        self.records.verdict(image, &present())
    }

    fn now(&self) -> Timestamp {
        self.records.now()
    }

    fn rows(&self) -> (usize, usize) {
        (self.store.keys(Table::PulledImages).len(), self.store.keys(Table::PullIntents).len())
    }
}

fn image(id: &str, tag: &str) -> ImageInfo {
    ImageInfo { id: id.to_owned(), tags: vec![tag.to_owned()], ..ImageInfo::default() }
}

/// The image that the runtime has.
fn present() -> ImageInfo {
    let tags = vec!["r.io/a:1".to_owned(), "docker.io/library/busybox:latest".to_owned()];
    ImageInfo { id: "sha256:1".to_owned(), tags, ..ImageInfo::default() }
}

#[tokio::test(start_paused = true)]
async fn a_preloaded_image_is_open_until_this_node_pulls_it() {
    let host = Host::new();
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Granted);
    let intent = host.records.begin("r.io/a:1", None).await;
    assert_eq!(host.verdict("r.io/a:1"), Verdict::MustPull);
    let pod = of_secret("s", "1", "pw");
    intent.succeeded("sha256:1", Some(&pod));
    let host = host.restarted();
    assert_eq!(host.rows(), (1, 0));
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Depends);
    assert!(host.records.admits("r.io/a:1", "sha256:1", std::slice::from_ref(&pod)));
    assert!(!host.records.admits("r.io/a:1", "sha256:1", &[of_secret("t", "2", "other")]));
    // Another name of the same image is another matter.
    assert_eq!(host.verdict("busybox"), Verdict::MustPull);
    host.records.begin("busybox", None).await.succeeded("sha256:1", None);
    assert_eq!(host.verdict("docker.io/library/busybox:1"), Verdict::Granted);
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Depends);
}

#[tokio::test(start_paused = true)]
async fn a_secret_with_the_same_login_is_known_from_then_on() {
    let host = Host::new();
    host.records.begin("r.io/a:1", None).await.succeeded("sha256:1", Some(&of_secret("s", "1", "pw")));
    assert!(host.records.admits("r.io/a:1", "sha256:1", &[of_secret("t", "2", "pw")]));
    let host = host.restarted();
    // By its identity, with a new login.
    assert!(host.records.admits("r.io/a:1", "sha256:1", &[of_secret("t", "2", "rotated")]));
    assert!(!host.records.admits("r.io/a:1", "sha256:2", &[of_secret("t", "2", "rotated")]));
}

#[tokio::test(start_paused = true)]
async fn the_image_of_a_pull_that_was_cut_short_counts_as_pulled() {
    let host = Host::new();
    drop(host.records.begin("busybox", None).await);
    let host = host.restarted();
    assert_eq!(host.rows(), (0, 1));
    // By any of its names.
    assert_eq!(host.verdict("r.io/a:1"), Verdict::MustPull);
    assert_eq!(host.rows(), (1, 0), "it is a pulled image without known credentials");
    assert_eq!(host.restarted().verdict("r.io/a:1"), Verdict::MustPull);
}

#[tokio::test(start_paused = true)]
async fn a_preloaded_image_stays_so_if_a_pull_of_it_is_cut_short() {
    let host = Host::new();
    let intent = host.records.begin("r.io/a:1", Some(&present())).await;
    assert_eq!(host.verdict("r.io/a:1"), Verdict::MustPull, "the pull may need credentials");
    drop(intent);
    let host = host.restarted();
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Granted);
    drop(host.records.begin("r.io/a:1", Some(&present())).await);
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Granted);
    // The pull brought another one.
    let other = ImageInfo { id: "sha256:2".to_owned(), ..present() };
    assert_eq!(host.records.verdict("r.io/a:1", &other), Verdict::MustPull);
    assert_eq!(host.rows(), (1, 0));
    // It was pulled: it is not preloaded.
    drop(host.records.begin("r.io/a:1", Some(&other)).await);
    assert_eq!(host.restarted().records.verdict("r.io/a:1", &other), Verdict::MustPull);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pull_leaves_nothing_behind() {
    let host = Host::new();
    let (first, second) =
        (host.records.begin("r.io/a:1", None).await, host.records.begin("r.io/a:1", None).await);
    first.failed();
    assert_eq!(host.rows(), (0, 1), "the other goes on");
    assert_eq!(host.verdict("r.io/a:1"), Verdict::MustPull);
    second.failed();
    assert_eq!(host.rows(), (0, 0));
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Granted);
}

#[tokio::test(start_paused = true)]
async fn records_go_with_their_images() {
    let host = Host::new();
    host.records.begin("r.io/a:1", None).await.succeeded("sha256:1", None);
    drop(host.records.begin("gone.io/a:1", None).await);
    advance(Duration::from_secs(60)).await;
    host.records.prune(&[present()], host.now());
    assert_eq!(host.rows(), (1, 1));
    // Read before the image came.
    let listed_at = host.now();
    host.records.begin("r.io/a:1", None).await.succeeded("sha256:1", None);
    host.records.prune(&[], listed_at);
    assert_eq!(host.rows(), (1, 1));
    advance(Duration::from_secs(1)).await;
    let running = host.records.begin("slow.io/a:1", None).await;
    host.records.prune(&[], host.now());
    assert_eq!(host.rows(), (0, 2));
    advance(Duration::from_secs(3600)).await;
    host.records.prune(&[], host.now());
    assert_eq!(host.store.keys(Table::PullIntents), ["slow.io/a:1"]);
    running.failed();
    assert_eq!(host.restarted().verdict("r.io/a:1"), Verdict::Granted, "found again, it was preloaded");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forgets_no_pull() {
    const TEN_YEARS: i64 = 3652 * 86_400;
    for step in [-TEN_YEARS, TEN_YEARS] {
        let host = Host::new();
        drop(host.records.begin("cut.io/short:1", None).await);
        let listed_at = host.now();
        host.clock.set(step);
        host.records.begin("r.io/a:1", None).await.succeeded("sha256:1", None);
        host.records.prune(&[], listed_at);
        advance(Duration::from_secs(60)).await;
        host.records.prune(&[present()], host.now());
        assert_eq!(host.rows(), (1, 1), "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_credential_is_stored() {
    let host = Host::new();
    host.records.begin("r.io/a:1", None).await.succeeded("sha256:1", Some(&of_secret("s", "1", "hunter2")));
    let row: serde_json::Value = host.store.get(Table::PulledImages, "sha256:1").unwrap();
    let expected = serde_json::json!({
        "lastUpdatedTime": "2026-01-01T00:00:00Z",
        "credentialMapping": {"r.io/a": {"kubernetesSecrets": [
            {"namespace": "default", "name": "s", "uid": "1", "credentialHash": login("hunter2").hash()},
        ]}},
    });
    assert_eq!(row, expected);
}

#[tokio::test(start_paused = true)]
async fn the_stock_kubelets_records_are_continued() {
    let hash = "46f0422e67d24e06f51d06a9b5c3ecb8442ce99f3895fab789cb907bac4b27a5";
    let access = |hash: &str| {
        json!({"kubernetesSecrets": [
            {"uid": "1", "namespace": "default", "name": "s", "credentialHash": hash},
        ]})
    };
    let stock = {
        let record = |mapping: Value| {
            let record = json!({"lastUpdatedTime": "2025-01-01T00:00:00Z", "credentialMapping": mapping});
            serde_json::from_value(record).unwrap()
        };
        // Its names are as in the specs of pods.
        let mapping = json!({"r.io/a": access(hash), "busybox": {"nodePodsAccessible": true}});
        let empty = record(json!({}));
        let records = [("sha256:1".to_owned(), record(mapping)), ("sha256:2".to_owned(), empty)];
        StockRecords { records: records.into(), intents: vec!["cut.io/short".to_owned()] }
    };
    let host = Host::new();
    assert!(host.records.are_empty());
    host.records.take_over(stock);
    let host = host.restarted();
    assert!(!host.records.are_empty());
    assert_eq!(host.rows(), (2, 1));
    assert_eq!(host.verdict("busybox"), Verdict::Granted);
    assert_eq!(host.verdict("r.io/a:1"), Verdict::Depends);
    // By the login alone, or by the Secret alone.
    assert!(host.records.admits("r.io/a:1", "sha256:1", &[of_secret("t", "2", "pw")]));
    assert!(host.records.admits("r.io/a:1", "sha256:1", &[of_secret("s", "1", "rotated")]));
    assert!(!host.records.admits("r.io/a:1", "sha256:1", &[of_secret("t", "3", "other")]));
    let (two, cut_short) = (image("sha256:2", "r.io/b:1"), image("sha256:3", "cut.io/short:latest"));
    assert_eq!(host.records.verdict("r.io/b:1", &two), Verdict::MustPull, "pulled with unknown credentials");
    assert_eq!(host.records.verdict("cut.io/short", &cut_short), Verdict::MustPull);
    assert_eq!(host.records.verdict("r.io/c:1", &image("sha256:4", "r.io/c:1")), Verdict::Granted);
}

#[tokio::test(start_paused = true)]
async fn checks_are_counted() {
    let host = Host::new();
    let metrics = Metrics::default();
    host.records.register(&metrics);
    host.records.count("IfNotPresent", Some(true), None);
    host.verdict("r.io/a:1");
    host.records.begin("r.io/a:1", None).await.succeeded("sha256:1", None);
    host.verdict("r.io/a:1");
    let text = metrics.encode();
    for line in [
        "kubelet_imagemanager_image_mustpull_checks_total{result=\"credentialPolicyAllowed\"} 1\n",
        "kubelet_imagemanager_image_mustpull_checks_total{result=\"credentialRecordFound\"} 1\n",
        "kubelet_image_manager_ensure_image_requests_total{pull_policy=\"ifnotpresent\",present_locally=\"true\",\
         pull_required=\"unknown\"} 1\n",
        "kubelet_imagemanager_ondisk_pulledrecords 1\n",
        "kubelet_imagemanager_ondisk_pullintents 0\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

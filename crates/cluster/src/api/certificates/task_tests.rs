//! Certificates from a fake API server in paused time: bootstrap, denial, renewal, expiry, rejection, and a server that is away.

use std::fs;
use std::path::Path;

use hostlet_net::tls::certificate_request;
use hostlet_net::tls::fake::FakeAuthority;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rand::SeedableRng;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::api::kubeconfig::of_one_user;

const HOUR: Duration = Duration::from_secs(3600);
const NEVER: Duration = Duration::from_secs(48 * 3600);

/// The files of a node, its clock and its API server.
struct Node {
    dir: TempDir,
    api: FakeApi,
    clock: WallClock,
}

/// A running daemon's part of it.
struct Running {
    credentials: Credentials,
    report: watch::Receiver<Option<CertificateReport>>,
    _stop: DropGuard,
}

impl Node {
    fn new() -> Self {
        let clock = WallClock::of_tokio("2026-11-24T00:00:00Z".parse().unwrap());
        Self { dir: TempDir::new().unwrap(), api: FakeApi::new(clock.clone()), clock }
    }

    /// With a bootstrap kubeconfig.
    fn with_bootstrap() -> Self {
        let node = Self::new();
        node.write_bootstrap();
        node
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write_bootstrap(&self) {
        fs::write(self.at("bootstrap"), of_one_user("https://10.0.0.1:6443", "{token: t}")).unwrap();
    }

    fn store(&self) -> CertificateStore {
        CertificateStore::of_client(&self.at("pki"))
    }

    /// Stores a certificate issued now, and a kubeconfig with it.
    fn certify(&self, lifetime: Duration) {
        let key = PrivateKey::generate().unwrap();
        let request = certificate_request(&key, "system:nodes", "system:node:host1").unwrap();
        let certificate = FakeAuthority::new().issue(&request, self.clock.now(), lifetime).unwrap();
        self.store().update(&certificate, &key, &self.clock.now().to_zoned(TimeZone::UTC)).unwrap();
        let path = self.store().current_path();
        let user = format!("{{client-certificate: {0}, client-key: {0}}}", path.display());
        fs::write(self.at("kubelet.conf"), of_one_user("https://10.0.0.1:6443", &user)).unwrap();
    }

    fn run(&self) -> Running {
        self.run_with(true)
    }

    fn run_with(&self, rotates: bool) -> Running {
        let source = CredentialsSource::new(self.at("kubelet.conf"));
        let source = source.with_clock(self.clock.clone()).with_store(self.store());
        let (keeping, credentials) = Credentials::new(source);
        let settings = CertificateSettings {
            node: "host1".to_owned(),
            kubeconfig: self.at("kubelet.conf"),
            bootstrap: Some(CredentialsSource::bootstrap(self.at("bootstrap"))),
            rotates,
            store: self.store(),
            clock: self.clock.clone(),
        };
        let (client, api) = (self.api.client(), self.api.clone());
        let connect = move |_: Credentials| -> Result<Client, ConnectError> { Ok(api.client()) };
        let chance = StdRng::seed_from_u64(7);
        let (task, report) =
            ClientCertificateTask::new(settings, credentials.clone(), client, connect, chance);
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "tasks of a test")]
        {
            tokio::spawn(keeping.run(stop.clone()));
            tokio::spawn(task.run(stop.clone()));
        }
        Running { credentials, report, _stop: stop.drop_guard() }
    }

    fn requests(&self) -> Vec<CertificateSigningRequest> {
        self.api.list("/apis/certificates.k8s.io/v1/certificatesigningrequests")
    }

    /// Waits for this many requests in total, and returns the name of the one that is not decided yet.
    async fn pending(&self, count: usize) -> String {
        let pending = async {
            loop {
                let requests = self.requests();
                assert!(requests.len() <= count, "{requests:?}");
                let pending = requests.iter().find(|request| {
                    let status = request.status.as_ref();
                    status.is_none_or(|status| status.conditions.as_ref().is_none_or(Vec::is_empty))
                });
                if let Some(pending) = pending.filter(|_| requests.len() == count) {
                    return pending.metadata.name.clone().unwrap();
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        timeout(NEVER, pending).await.unwrap()
    }
}

impl Running {
    async fn until(&mut self, wanted: impl Fn(&CertificateReport) -> bool) -> CertificateReport {
        let seen = self.report.wait_for(|report| report.as_ref().is_some_and(&wanted));
        timeout(NEVER, seen).await.unwrap().unwrap().clone().unwrap()
    }

    /// Waits until requests are sent with a certificate that is valid at `now`.
    async fn until_certified(&self, clock: &WallClock) -> CertificateInfo {
        let certified = async {
            loop {
                if let Ok(ready) = self.credentials.get().await
                    && let Some(certificate) = ready.login.certificate.clone()
                    && !certificate.is_expired(clock.now())
                {
                    return certificate;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(NEVER, certified).await.unwrap()
    }
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_kubeconfig_bootstraps() {
    let node = Node::with_bootstrap();
    let mut running = node.run();
    let name = node.pending(1).await;
    assert!(name.starts_with("node-csr-"), "{name}");
    let report = running.until(|report| report.waits_for.is_some()).await;
    assert_eq!((report.waits_for.as_ref(), report.expires), (Some(&name), None));
    let spec = node.requests()[0].spec.clone();
    assert_eq!(spec.signer_name, "kubernetes.io/kube-apiserver-client-kubelet");
    assert_eq!(spec.usages, Some(vec!["digital signature".to_owned(), "client auth".to_owned()]));

    // However long it takes, it waits, and approval alone is no certificate.
    sleep(24 * HOUR).await;
    assert!(!node.at("kubelet.conf").exists());
    node.api.approve_certificate(&name);
    sleep(HOUR).await;
    node.api.issue_certificate(&name, 24 * HOUR);
    let before = Instant::now();
    running.until_certified(&node.clock).await;
    assert!(before.elapsed() < Duration::from_secs(5), "it joins at once");
    let text = fs::read_to_string(node.at("kubelet.conf")).unwrap();
    assert!(text.contains("kubelet-client-current.pem") && text.contains("10.0.0.1:6443"), "{text}");
    let names = files(&node.at("pki"));
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[1], "kubelet-client-current.pem");
    let report = running.until(|report| report.expires.is_some()).await;
    assert_eq!((report.waits_for, report.problem), (None, None));
    assert_eq!(node.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_finds_its_request_again() {
    let node = Node::with_bootstrap();
    let first = node.run();
    let name = node.pending(1).await;
    drop(first);
    let mut second = node.run();
    second.until(|report| report.waits_for.as_ref() == Some(&name)).await;
    node.api.issue_certificate(&name, 24 * HOUR);
    second.until_certified(&node.clock).await;
    assert_eq!(node.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_denied_request_is_reported_and_repeated_with_another_key() {
    for is_denied in [true, false] {
        let node = Node::with_bootstrap();
        let mut running = node.run();
        let name = node.pending(1).await;
        match is_denied {
            true => node.api.deny_certificate(&name, "not this one"),
            false => node.api.fail_certificate(&name, "not this one"),
        }
        let report = running.until(|report| report.problem.is_some()).await;
        let problem = report.problem.unwrap();
        let word = if is_denied { "was denied" } else { "failed" };
        assert_eq!(problem, format!("the certificate signing request {name} {word} (Test: not this one)"));
        let other = node.pending(2).await;
        assert_ne!(name, other);
        node.api.issue_certificate(&other, 24 * HOUR);
        running.until_certified(&node.clock).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_request_is_made_again() {
    let node = Node::with_bootstrap();
    let mut running = node.run();
    let name = node.pending(1).await;
    running.until(|report| report.waits_for.is_some()).await;
    node.api.delete(&format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"), None);
    running.until(|report| report.problem.as_ref().is_some_and(|problem| problem.contains("deleted"))).await;
    // The same key.
    assert_eq!(node.pending(1).await, name);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_waited_for() {
    let node = Node::with_bootstrap();
    for fault in [
        ApiFault::Reset,
        ApiFault::Reject { code: 401, reason: "Unauthorized", retry_after: 0 },
        ApiFault::LostAnswer,
    ] {
        node.api.fail(ApiRule { times: 3, ..ApiRule::always("", "certificates", fault) });
    }
    let running = node.run();
    let name = node.pending(1).await;
    // The watch is cut, and the server is away while the request is decided.
    node.api.fail(ApiRule { times: 5, ..ApiRule::always("", "certificates", ApiFault::Reset) });
    node.api.compact();
    node.api.issue_certificate(&name, 24 * HOUR);
    running.until_certified(&node.clock).await;
    assert_eq!(node.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_at_70_to_90_percent_of_its_lifetime() {
    let node = Node::new();
    node.certify(HOUR);
    let (start, old) = (node.clock.now(), node.store().current().unwrap());
    let mut running = node.run();
    let first = running.until_certified(&node.clock).await;
    let report = running.until(|report| report.renewed.is_some()).await;
    let name = node.pending(1).await;
    let after = node.clock.now().duration_since(start).as_mins();
    assert!((42..55).contains(&after), "{after}");
    assert!(name.starts_with("csr-"), "{name}");
    assert!(report.renewed.unwrap() <= node.clock.now());

    // Denied: the current one stays in use.
    node.api.deny_certificate(&name, "");
    let name = node.pending(2).await;
    assert_eq!(running.until_certified(&node.clock).await, first);
    node.api.issue_certificate(&name, HOUR);
    let renewed = running.until(|report| report.expires.unwrap() > first.not_after).await;
    assert_eq!((renewed.problem, renewed.waits_for), (None, None));
    assert_ne!(running.until_certified(&node.clock).await, first);
    assert_ne!(node.store().current().unwrap(), old, "another key");
    assert_eq!(files(&node.at("pki")).len(), 3, "the old one stays");
    // And again, for ever.
    let name = node.pending(3).await;
    node.api.issue_certificate(&name, HOUR);
    running.until(|report| report.expires.unwrap() > renewed.expires.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_by_years_causes_one_renewal_at_most() {
    const TEN_YEARS: i64 = 10 * 365 * 86_400;
    for set in [-TEN_YEARS, TEN_YEARS] {
        let mut node = Node::new();
        node.api = FakeApi::new(WallClock::of_tokio(node.clock.now()));
        node.certify(HOUR);
        node.api.issue_certificates(Some(HOUR));
        let running = node.run();
        running.until_certified(&node.clock).await;
        node.clock.set(set);
        sleep(HOUR * 2 / 3).await;
        assert!(node.requests().len() <= 1, "{set}: {}", node.requests().len());
    }
}

#[tokio::test(start_paused = true)]
async fn the_stores_newer_certificate_is_used_after_a_restart() {
    let node = Node::new();
    // As on a node whose kubeconfig embeds its first certificate.
    node.certify(HOUR);
    let embedded = node.at("embedded.pem");
    fs::copy(node.store().current_path(), &embedded).unwrap();
    let user = format!("{{client-certificate: {0}, client-key: {0}}}", embedded.display());
    fs::write(node.at("kubelet.conf"), of_one_user("https://10.0.0.1:6443", &user)).unwrap();
    node.api.issue_certificates(Some(HOUR));
    let mut running = node.run();
    let first = running.until(|report| report.expires.is_some()).await.expires.unwrap();
    let second = running.until(|report| report.expires.unwrap() > first).await.expires.unwrap();
    drop(running);
    let mut running = node.run();
    assert_eq!(running.until(|report| report.expires.is_some()).await.expires, Some(second));
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_expired_while_the_daemon_was_down_is_replaced() {
    let node = Node::new();
    node.certify(HOUR);
    sleep(5 * HOUR).await;
    // Without a bootstrap kubeconfig it retries, and says so.
    let reject = ApiFault::Reject { code: 401, reason: "Unauthorized", retry_after: 0 };
    node.api.fail(ApiRule::always("", "certificates", reject));
    let mut running = node.run();
    let report = running.until(|report| report.problem.is_some()).await;
    let sentences = report.sentences(node.clock.now());
    assert!(sentences.starts_with("The client certificate of this node expired 4 hours ago"), "{sentences}");
    sleep(HOUR).await;
    node.api.heal();
    assert_eq!(node.requests().len(), 0);
    node.api.fail(ApiRule::always("POST", "certificates", ApiFault::Hang));
    node.write_bootstrap();
    sleep(HOUR).await;
    node.api.heal();
    let name = node.pending(1).await;
    assert!(name.starts_with("node-csr-"), "{name}");
    node.api.issue_certificate(&name, 24 * HOUR);
    running.until_certified(&node.clock).await;
}

#[tokio::test(start_paused = true)]
async fn a_rejected_certificate_is_replaced_with_a_bootstrap_kubeconfig() {
    let node = Node::new();
    node.certify(1000 * HOUR);
    let mut running = node.run();
    let old = running.until_certified(&node.clock).await;
    let reject = async |running: &Running| {
        let ready = running.credentials.get().await.unwrap();
        running.credentials.rejected(&ready);
    };
    // For a moment: an API server that starts.
    node.write_bootstrap();
    reject(&running).await;
    sleep(Duration::from_secs(50)).await;
    running.credentials.accepted();
    sleep(HOUR).await;
    assert_eq!(node.requests().len(), 0);
    fs::remove_file(node.at("bootstrap")).unwrap();
    reject(&running).await;
    assert!(running.until(|report| report.is_rejected).await.is_problem(node.clock.now()));
    assert_eq!(node.requests().len(), 0);
    node.write_bootstrap();
    node.api.issue_certificates(Some(1000 * HOUR));
    running.until(|report| report.expires.is_some_and(|expires| expires > old.not_after)).await;
    assert!(!running.report.borrow().as_ref().unwrap().is_rejected);
}

#[tokio::test(start_paused = true)]
async fn other_credentials_are_left_alone() {
    let node = Node::with_bootstrap();
    fs::write(node.at("kubelet.conf"), of_one_user("https://10.0.0.1:6443", "{token: t}")).unwrap();
    let running = node.run();
    sleep(24 * HOUR).await;
    assert_eq!((node.requests().len(), running.report.borrow().clone()), (0, None));
    // Without rotateCertificates a certificate expires.
    let node = Node::new();
    node.certify(HOUR);
    let mut running = node.run_with(false);
    assert_eq!(running.until(|report| report.expires.is_some()).await.renewed, None);
    sleep(3 * HOUR).await;
    assert_eq!(node.requests().len(), 0);
}

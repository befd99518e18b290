//! Serving certificates from a fake API server in paused time: the first one, another address, renewal, denial, a restart.

use hostlet_telemetry::Metrics;
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rand::SeedableRng;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::*;
use crate::api::fake::FakeApi;

const HOUR: Duration = Duration::from_secs(3600);
const NEVER: Duration = Duration::from_secs(48 * 3600);

/// A node's files, clock, Node and API server.
struct Host {
    dir: TempDir,
    api: FakeApi,
    clock: WallClock,
    node: watch::Sender<Option<Arc<Node>>>,
    metrics: Metrics,
}

/// A running daemon's part of it.
struct Running {
    issued: watch::Receiver<IssuedCertificate>,
    _stop: DropGuard,
}

impl Host {
    fn new() -> Self {
        let clock = WallClock::of_tokio("2026-11-24T00:00:00Z".parse().unwrap());
        let api = FakeApi::new(clock.clone());
        let (node, metrics) = (watch::Sender::new(None), Metrics::default());
        Self { dir: TempDir::new().unwrap(), api, clock, node, metrics }
    }

    /// Sets the addresses in the Node's status.
    fn addresses(&self, addresses: &[(&str, &str)]) {
        let addresses: Vec<_> =
            addresses.iter().map(|(kind, text)| json!({"type": kind, "address": text})).collect();
        let node = serde_json::from_value(json!({"status": {"addresses": addresses}})).unwrap();
        self.node.send_replace(Some(Arc::new(node)));
    }

    fn run(&self) -> Running {
        let settings = ServingSettings {
            node: "host1".to_owned(),
            store: CertificateStore::of_server(&self.dir.path().join("pki")),
            clock: self.clock.clone(),
        };
        let sender = watch::Sender::default();
        let issued = sender.subscribe();
        let metrics = ServingMetrics::new(&self.metrics, self.clock.clone());
        let chance = StdRng::seed_from_u64(7);
        let client = self.api.client();
        let task =
            ServingCertificateTask::new(settings, client, self.node.subscribe(), sender, metrics, chance);
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(task.run(stop.clone()));
        Running { issued, _stop: stop.drop_guard() }
    }

    fn requests(&self) -> Vec<CertificateSigningRequest> {
        self.api.list("/apis/certificates.k8s.io/v1/certificatesigningrequests")
    }

    /// Waits for this many requests in total, and returns the name of the one without a condition.
    async fn pending(&self, count: usize) -> String {
        let pending = async {
            loop {
                let requests = self.requests();
                assert!(requests.len() <= count, "{requests:?}");
                let is_pending = |request: &&CertificateSigningRequest| {
                    let status = request.status.as_ref();
                    status.is_none_or(|status| status.conditions.as_ref().is_none_or(Vec::is_empty))
                };
                let undecided = requests.iter().find(is_pending);
                if let Some(request) = undecided.filter(|_| requests.len() == count) {
                    return request.metadata.name.clone().unwrap();
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        timeout(NEVER, pending).await.unwrap()
    }
}

impl Running {
    /// The next certificate that is published.
    async fn next(&mut self) -> CertificateInfo {
        timeout(NEVER, self.issued.changed()).await.unwrap().unwrap();
        let text = self.issued.borrow_and_update().clone().unwrap();
        let info = CertificateInfo::from_pem(&text).unwrap();
        info.check_key(&PrivateKey::from_pem(&text).unwrap()).unwrap();
        info
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_requested_once_the_node_has_an_address() {
    let host = Host::new();
    let mut running = host.run();
    host.addresses(&[("Hostname", "host1")]);
    sleep(HOUR).await;
    assert_eq!(host.requests().len(), 0);
    host.addresses(&[("InternalIP", "10.0.0.1"), ("Hostname", "host1")]);
    let name = host.pending(1).await;
    assert!(name.starts_with("csr-"), "{name}");
    let spec = host.requests()[0].spec.clone();
    assert_eq!(spec.signer_name, "kubernetes.io/kubelet-serving");
    assert_eq!(spec.usages, Some(vec!["digital signature".to_owned(), "server auth".to_owned()]));
    sleep(24 * HOUR).await;
    host.api.issue_certificate(&name, 24 * HOUR);
    let certificate = running.next().await;
    assert_eq!(Vec::from_iter(&certificate.names.names), ["host1"]);
    assert_eq!(certificate.names.addresses, ["10.0.0.1".parse().unwrap()].into());
    let text = host.metrics.encode();
    assert!(text.contains("kubelet_certificate_manager_server_ttl_seconds 8"), "{text}");
    assert!(host.dir.path().join("pki/kubelet-server-current.pem").exists());
    assert_eq!(host.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_address_and_the_end_of_its_lifetime_need_another_certificate() {
    let host = Host::new();
    host.addresses(&[("InternalIP", "10.0.0.1")]);
    let mut running = host.run();
    host.api.issue_certificate(&host.pending(1).await, 24 * HOUR);
    running.next().await;
    host.addresses(&[("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1")]);
    // It changes again while the request is pending.
    let outdated = host.pending(2).await;
    host.addresses(&[("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::2")]);
    host.api.deny_certificate(&outdated, "");
    host.api.issue_certificate(&host.pending(3).await, 24 * HOUR);
    let certificate = running.next().await;
    assert_eq!(certificate.names.addresses.len(), 2);
    // An address that is removed needs none.
    host.addresses(&[("InternalIP", "10.0.0.1")]);
    sleep(HOUR).await;
    assert_eq!(host.requests().len(), 3);
    let name = host.pending(4).await;
    let age = host.clock.now().duration_since(certificate.not_before);
    let lifetime = certificate.lifetime();
    assert!(age > lifetime.mul_f64(0.69) && age < lifetime.mul_f64(0.91), "{age:?} of {lifetime:?}");
    host.api.issue_certificate(&name, 24 * HOUR);
    running.next().await;
    let text = host.metrics.encode();
    assert!(text.contains("kubelet_certificate_manager_server_rotation_seconds_count 2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_uses_the_stored_certificate() {
    let host = Host::new();
    host.addresses(&[("InternalIP", "10.0.0.1")]);
    let mut first = host.run();
    host.api.issue_certificate(&host.pending(1).await, 24 * HOUR);
    let certificate = first.next().await;
    drop(first);
    assert_eq!(host.run().next().await, certificate);
    sleep(HOUR).await;
    assert_eq!(host.requests().len(), 1);
    // A damaged one is replaced.
    let current = host.dir.path().join("pki/kubelet-server-current.pem");
    std::fs::write(&current, "damaged").unwrap();
    let mut third = host.run();
    host.api.issue_certificate(&host.pending(2).await, 24 * HOUR);
    assert_ne!(third.next().await, certificate);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_years_ahead_or_behind_causes_no_more_requests() {
    const TEN_YEARS: i64 = 10 * 365 * 86_400;
    for set in [-TEN_YEARS, TEN_YEARS] {
        let mut host = Host::new();
        // The signer's clock is right.
        host.api = FakeApi::new(WallClock::of_tokio(host.clock.now()));
        host.clock.set(set);
        host.api.issue_certificates(Some(24 * HOUR));
        host.addresses(&[("InternalIP", "10.0.0.1")]);
        let mut running = host.run();
        let first = running.next().await;
        sleep(16 * HOUR).await;
        assert_eq!(host.requests().len(), 1, "{set}");
        assert!(running.next().await.not_before > first.not_before);
        assert_eq!(host.requests().len(), 2, "{set}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_request_is_counted_and_repeated() {
    let host = Host::new();
    host.addresses(&[("InternalIP", "10.0.0.1")]);
    let mut running = host.run();
    host.api.deny_certificate(&host.pending(1).await, "");
    host.api.issue_certificate(&host.pending(2).await, 24 * HOUR);
    let certificate = running.next().await;
    assert_eq!(certificate.lifetime(), SignedDuration::from_hours(24));
    let text = host.metrics.encode();
    assert!(text.contains("kubelet_server_expiration_renew_errors 1"), "{text}");
}

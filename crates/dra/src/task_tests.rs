//! The task with drivers in memory, in paused time.

use std::fs;
use std::time::Duration;

use hostlet_base::PodUid;
use hostlet_telemetry::Metrics;
use tokio::time::{Instant, sleep, timeout};

use crate::fake::Outcome;
use crate::testing::{GPU, Host, NIC, container, pod};
use crate::{ClaimPhase, Operation};

fn number(host: &Host, driver: &str, operation: Operation) -> usize {
    host.drivers[driver].calls().iter().filter(|(made, _)| *made == operation).count()
}

#[tokio::test(start_paused = true)]
async fn claims_are_prepared_once_for_all_pods_and_unprepared_after_the_last() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1", "p2"]);
    host.api.set("b", "ub", &[GPU, NIC], &["p1"]);
    let (first, second) = (pod("p1", &["a", "b"]), pod("p2", &["a"]));
    host.prepare(&first).await.unwrap();
    assert_eq!(
        host.claims.cdi_devices(&first, container(&first)).unwrap(),
        ["gpu.example.com/device=ua", "gpu.example.com/device=ub", "nic.example.com/device=ub",]
    );
    host.prepare(&second).await.unwrap();
    host.prepare(&second).await.unwrap();
    // One call with both claims to one driver, one with its claim to the other.
    assert_eq!((number(&host, GPU, Operation::Prepare), number(&host, NIC, Operation::Prepare)), (2, 1));
    host.release(&first).await.unwrap();
    assert_eq!(host.drivers[GPU].prepared(), ["ua".to_owned()].into());
    assert!(host.drivers[NIC].prepared().is_empty());
    assert!(host.claims.cdi_devices(&second, container(&second)).is_ok());
    host.release(&second).await.unwrap();
    assert!(host.drivers[GPU].prepared().is_empty() && host.claims.views().is_empty());
    assert!(host.claims.cdi_devices(&second, container(&second)).is_err());
    host.release(&second).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_not_prepared_for_a_pod_that_it_is_not_reserved_for() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1"]);
    let error = host.prepare(&pod("p2", &["a"])).await.unwrap_err().to_string();
    assert_eq!(error, "pod p2 (p2) is not allowed to use ResourceClaim a (ua)");
    let error = host.prepare(&pod("p1", &["b"])).await.unwrap_err().to_string();
    assert_eq!(error, "fetch ResourceClaim b: resourceclaims.resource.k8s.io \"b\" not found");
    assert!(host.drivers[GPU].calls().is_empty() && host.claims.views().is_empty());
}

/// kubernetes/kubernetes#131957.
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_never_prepared_ends_without_the_driver() {
    let mut host = Host::new();
    host.deregister(NIC);
    host.api.set("a", "ua", &[GPU, NIC], &["p1"]);
    let pod = pod("p1", &["a"]);
    let error = host.prepare(&pod).await.unwrap_err().to_string();
    assert_eq!(error, "DRA driver nic.example.com is not registered");
    assert!(host.drivers[GPU].calls().is_empty(), "the other driver has nothing to undo");
    host.release(&pod).await.unwrap();
    host.restart().await;
    host.release(&pod).await.unwrap();
    assert!(host.drivers[GPU].calls().is_empty());
    // A pod that stays is woken by the driver.
    assert!(host.prepare(&pod).await.is_err());
    host.register(NIC);
    assert_eq!(timeout(Duration::from_secs(1), host.claims.changed()).await, Ok(PodUid::from("p1")));
    host.prepare(&pod).await.unwrap();
}

/// kubernetes/kubernetes#137819 and kubernetes/kubernetes#139772.
#[tokio::test(start_paused = true)]
async fn of_two_drivers_one_fails_and_nothing_of_the_other_is_lost() {
    let mut host = Host::new();
    host.api.set("a", "ua", &[GPU, NIC], &["p1"]);
    host.drivers[NIC].next(Outcome::FailsClaims);
    let pod = pod("p1", &["a"]);
    let error = host.prepare(&pod).await.unwrap_err().to_string();
    assert_eq!(error, "NodePrepareResources failed for ResourceClaim a: no device");
    let view = &host.claims.views()[0];
    assert_eq!((view.phase, view.last_error.as_deref()), (ClaimPhase::Preparing, Some(error.as_str())));
    // Only the driver that failed is called again.
    host.drivers[NIC].next(Outcome::Fails);
    let error = host.prepare(&pod).await.unwrap_err().to_string();
    assert_eq!(error, "NodePrepareResources: rpc error: code = Internal desc = scripted");
    assert_eq!((number(&host, GPU, Operation::Prepare), number(&host, NIC, Operation::Prepare)), (1, 2));
    host.drivers[NIC].next(Outcome::SaysNothing);
    let error = host.prepare(&pod).await.unwrap_err().to_string();
    assert_eq!(error, "NodePrepareResources skipped 1 ResourceClaims");
    // The pod is deleted, also after a restart: both drivers undo what they may have done.
    host.restart().await;
    host.release(&pod).await.unwrap();
    assert!(host.drivers.values().all(|driver| driver.prepared().is_empty()));
    assert!(host.claims.views().is_empty());
}

/// kubernetes/kubernetes#140527.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_unprepared_is_given_to_no_pod() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1", "p2"]);
    let (first, second) = (pod("p1", &["a"]), pod("p2", &["a"]));
    host.prepare(&first).await.unwrap();
    host.drivers[GPU].next(Outcome::Late);
    let (released, ()) = tokio::join!(host.release(&first), async {
        sleep(Duration::from_secs(1)).await;
        let error = host.prepare(&second).await.unwrap_err().to_string();
        assert_eq!(error, "ResourceClaim a is being unprepared");
        assert_eq!(host.claims.views()[0].phase, ClaimPhase::Unpreparing);
    });
    released.unwrap();
    assert_eq!(host.claims.changed().await, PodUid::from("p2"));
    host.prepare(&second).await.unwrap();
    assert_eq!(host.drivers[GPU].prepared(), ["ua".to_owned()].into());
}

/// kubernetes/kubernetes#131513: the pod and its claim are deleted at once, and both are created again.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_replaced_waits_until_the_old_one_is_unprepared() {
    let host = Host::new();
    host.api.set("a", "old", &[GPU], &["p1"]);
    let old = pod("p1", &["a"]);
    host.prepare(&old).await.unwrap();
    host.api.set("a", "new", &[GPU], &["p2"]);
    let new = pod("p2", &["a"]);
    let error = host.prepare(&new).await.unwrap_err().to_string();
    assert!(error.starts_with("old ResourceClaim with same name a and different UID old still exists"));
    host.release(&old).await.unwrap();
    assert_eq!(host.claims.changed().await, PodUid::from("p2"));
    host.prepare(&new).await.unwrap();
    assert_eq!(host.drivers[GPU].prepared(), ["new".to_owned()].into());
}

/// kubernetes/kubernetes#129402.
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_gone_for_good_is_waited_for_until_somebody_gives_up() {
    let mut host = Host::new();
    host.api.set("a", "ua", &[GPU, NIC], &["p1"]);
    let pod = pod("p1", &["a"]);
    host.prepare(&pod).await.unwrap();
    let refused = host.claims.forget("ns", "a").await.unwrap_err().to_string();
    assert_eq!(refused, "pods use claim ns/a: delete them first");
    host.deregister(NIC);
    for _ in 0..2 {
        let error = host.release(&pod).await.unwrap_err().to_string();
        assert_eq!(error, "unprepare dynamic resources: DRA driver nic.example.com is not registered");
        host.restart().await;
    }
    let error = host.release(&pod).await.unwrap_err();
    assert_eq!(
        host.claims.views()[0].last_error.as_deref(),
        Some("DRA driver nic.example.com is not registered")
    );
    assert!(error.to_string().contains("nic"));
    assert_eq!(host.claims.forget("ns", "a").await.unwrap(), [NIC]);
    host.release(&pod).await.unwrap();
    assert!(host.drivers[GPU].prepared().is_empty(), "the driver that is here was not skipped");
    host.restart().await;
    assert!(host.claims.views().is_empty());
    assert_eq!(host.claims.forget("ns", "a").await.unwrap_err().to_string(), "this node has no claim ns/a");
}

#[tokio::test(start_paused = true)]
async fn a_restart_prepares_nothing_again_and_a_boot_does() {
    let mut host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1", "p2"]);
    let (first, second) = (pod("p1", &["a"]), pod("p2", &["a"]));
    host.prepare(&first).await.unwrap();
    host.restart().await;
    assert!(host.claims.holds(&first) && !host.claims.holds(&second));
    assert_eq!(host.claims.cdi_devices(&first, container(&first)).unwrap(), ["gpu.example.com/device=ua"]);
    host.prepare(&first).await.unwrap();
    host.prepare(&second).await.unwrap();
    assert_eq!(number(&host, GPU, Operation::Prepare), 1);
    assert_eq!(host.claims.pods(), ["p1", "p2"].map(PodUid::from).into());
    host.reboot().await;
    host.prepare(&first).await.unwrap();
    assert_eq!(number(&host, GPU, Operation::Prepare), 2);
    host.prepare(&second).await.unwrap();
    assert_eq!(number(&host, GPU, Operation::Prepare), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_while_it_is_prepared_is_unprepared_after_that() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1"]);
    let pod = pod("p1", &["a"]);
    host.drivers[GPU].next(Outcome::Late);
    // The worker that waits is cancelled.
    assert!(timeout(Duration::from_secs(1), host.prepare(&pod)).await.is_err());
    host.release(&pod).await.unwrap();
    assert_eq!(host.drivers[GPU].wrong(), Vec::<String>::new());
    assert!(host.drivers[GPU].prepared().is_empty());
    assert_eq!(host.drivers[GPU].calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_hangs_delays_only_its_claims() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1"]);
    host.api.set("b", "ub", &[NIC], &["p2"]);
    host.drivers[GPU].next(Outcome::Hangs);
    let began = Instant::now();
    let (slow, fast) = (pod("p1", &["a"]), pod("p2", &["b"]));
    let (hung, ()) = tokio::join!(host.prepare(&slow), async {
        host.prepare(&fast).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1));
    });
    assert!(hung.unwrap_err().to_string().contains("DeadlineExceeded"));
    host.prepare(&slow).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_prepared_that_cannot_be_recorded() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU], &["p1"]);
    let pod = pod("p1", &["a"]);
    // A directory cannot be replaced by a file.
    fs::create_dir(host.path()).unwrap();
    let error = host.prepare(&pod).await.unwrap_err().to_string();
    assert!(error.starts_with("checkpoint ResourceClaim state: cannot write"), "{error}");
    assert!(host.drivers[GPU].calls().is_empty() && host.claims.views().is_empty());
    fs::remove_dir(host.path()).unwrap();
    host.prepare(&pod).await.unwrap();
    fs::remove_file(host.path()).unwrap();
    fs::create_dir(host.path()).unwrap();
    assert!(host.release(&pod).await.is_err());
    fs::remove_dir(host.path()).unwrap();
    host.release(&pod).await.unwrap();
    assert!(host.drivers[GPU].prepared().is_empty() && host.claims.views().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_devices_skip_is_not_called_and_counted_once_for_each_claim() {
    let host = Host::new();
    host.api.set("a", "ua", &[GPU, NIC], &["p1", "p2"]);
    host.api.skip("a", &["NodePrepareResources"]);
    host.api.set("b", "ub", &[GPU], &["p3"]);
    host.api.skip("b", &["*"]);
    let metrics = Metrics::default();
    host.claims.shared.metrics.register(&metrics, Vec::new);
    let pods = [pod("p1", &["a"]), pod("p2", &["a"]), pod("p3", &["b"])];
    for pod in &pods {
        host.prepare(pod).await.unwrap();
        host.prepare(pod).await.unwrap();
    }
    for pod in &pods {
        host.release(pod).await.unwrap();
    }
    let calls = host.drivers[GPU].calls();
    assert_eq!(calls, [(Operation::Unprepare, "ua".to_owned())]);
    let text = metrics.encode();
    for (line, count) in [
        ("dra_node_prepare_skips_total{driver_name=\"gpu.example.com\"}", 2),
        ("dra_node_prepare_skips_total{driver_name=\"nic.example.com\"}", 1),
        ("dra_node_unprepare_skips_total{driver_name=\"gpu.example.com\"}", 1),
    ] {
        assert!(text.contains(&format!("{line} {count}\n")), "{line}: {text}");
    }
    assert!(!text.contains("unprepare_skips_total{driver_name=\"nic"), "{text}");
}

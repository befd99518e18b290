//! Tests of volumes that grow: before and while pods use them, whatever driver and API server do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::Code;

use super::testing::{Host, desired};
use crate::fake::{Call, Method, Outcome};
use crate::{Form, MissingSecret, NodeCapabilities, Publish, VolumePhase, VolumeView};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A host whose driver stages and grows volumes.
fn growing() -> Host {
    Host::with(NodeCapabilities { stage: true, expand: true, ..NodeCapabilities::default() })
}

impl Host {
    /// The size that the claim of `vol-1` is to have from now on.
    fn ask_for(&self, size: i64) {
        self.claims.desired.send_modify(|sizes| {
            sizes.insert("vol-1".to_owned(), size);
        });
    }

    fn expansions(&self) -> usize {
        self.driver.lines().iter().filter(|line| line.starts_with("NodeExpandVolume")).count()
    }

    fn view(&self) -> VolumeView {
        self.volumes().views().remove(0)
    }

    fn told(&self) -> Vec<String> {
        self.claims.published.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_grows_before_its_pod_uses_it() {
    let host = growing();
    host.ask_for(20);
    host.want(desired("a", 1)).await;
    let target = host.published("a", "pv-1").await;
    assert_eq!(
        host.driver.lines(),
        ["NodeStageVolume vol-1", "NodePublishVolume vol-1", "NodeExpandVolume vol-1"]
    );
    let Call::Expand(call) = host.driver.called(Method::Expand, 1).await else { panic!() };
    assert_eq!((call.path, call.size), (target, 20));
    assert_eq!(call.staging, host.driver.staged().remove("vol-1"));
    assert_eq!(host.told(), ["vol-1: 20"]);
    sleep(HOUR).await;
    assert_eq!(host.expansions(), 1);
    let looks = host.claims.looks.load(Ordering::Relaxed);
    assert!((40..=122).contains(&looks), "{looks} in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_volume_that_cannot_grow() {
    let host = growing();
    host.ask_for(20);
    host.driver.next(Method::Expand, [Outcome::Fails(Code::Internal)]);
    host.want(desired("a", 1)).await;
    let expected = "MountVolume.Setup failed while expanding volume for volume \"pv-1\" : Expander.NodeExpand failed to expand \
                    the volume : rpc error: code = Internal desc = scripted";
    assert_eq!(host.failed("a", "pv-1").await, expected);
    host.published("a", "pv-1").await;
    // As upstream, it is published again first.
    assert_eq!(
        host.driver.lines()[1..],
        [
            "NodePublishVolume vol-1",
            "NodeExpandVolume vol-1",
            "NodePublishVolume vol-1",
            "NodeExpandVolume vol-1"
        ]
    );
    assert_eq!(host.told().len(), 2);
    assert_eq!(host.view().last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_grows_no_volumes_in_use_is_asked_once() {
    let host = growing();
    host.driver.always(Method::Expand, Outcome::Fails(Code::FailedPrecondition));
    host.ask_for(20);
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    sleep(HOUR).await;
    assert_eq!(host.expansions(), 1);
    assert!(host.view().last_error.is_some_and(|error| error.contains("FailedPrecondition")));
    // Once it is not on this node any more.
    host.driver.always(Method::Expand, Outcome::Done);
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    host.want(desired("b", 1)).await;
    host.published("b", "pv-1").await;
    assert_eq!(host.driver.size("vol-1"), Some(20));
}

#[tokio::test(start_paused = true)]
async fn a_volume_grows_while_it_is_used_once() {
    let mut host = growing();
    host.want(desired("a", 1)).await;
    host.want(desired("b", 1)).await;
    host.published("a", "pv-1").await;
    host.published("b", "pv-1").await;
    sleep(10 * MINUTE).await;
    assert_eq!(host.expansions(), 0);
    let began = Instant::now();
    host.ask_for(20);
    host.driver.called(Method::Expand, 1).await;
    assert!(began.elapsed() <= 2 * MINUTE, "{:?}", began.elapsed());
    sleep(HOUR).await;
    assert_eq!((host.expansions(), host.told()), (1, vec!["vol-1: 20".to_owned()]));
    host.restart().await;
    host.want(desired("a", 1)).await;
    sleep(HOUR).await;
    assert_eq!(host.expansions(), 1);
    host.ask_for(30);
    sleep(2 * MINUTE).await;
    assert_eq!((host.expansions(), host.driver.size("vol-1")), (2, Some(30)));
    assert_eq!(host.driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_in_use_that_cannot_grow_stays_usable_and_is_tried_again() {
    let host = growing();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    host.driver.always(Method::Expand, Outcome::Fails(Code::Unavailable));
    host.ask_for(20);
    host.driver.called(Method::Expand, 3).await;
    sleep(HOUR).await;
    assert!(host.expansions() < 60, "with pauses: {}", host.expansions());
    host.published("a", "pv-1").await;
    let view = host.view();
    let expected = "NodeExpandVolume.NodeExpandVolume failed for volume \"pv-1\" : Expander.NodeExpand failed to expand the volume : \
                    rpc error: code = Unavailable desc = scripted";
    assert_eq!((view.phase, view.last_error.as_deref()), (VolumePhase::Failing, Some(expected)));
    assert!(view.next_retry.is_some());
    host.driver.always(Method::Expand, Outcome::Done);
    sleep(3 * MINUTE).await;
    assert_eq!((host.driver.size("vol-1"), host.view().last_error), (Some(20), None));
    assert_eq!(host.view().phase, VolumePhase::Published);
}

#[tokio::test(start_paused = true)]
async fn no_pod_waits_for_the_api_server() {
    let host = growing();
    host.ask_for(20);
    host.claims.is_silent.store(true, Ordering::Relaxed);
    let began = Instant::now();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
    // Neither does one that comes later, or one that goes, while a look has no answer.
    sleep(5 * MINUTE).await;
    let began = Instant::now();
    host.want(desired("b", 1)).await;
    host.published("b", "pv-1").await;
    assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
    sleep(5 * MINUTE).await;
    let began = Instant::now();
    host.release("b").await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(host.expansions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_driver_grows_nothing_that_is_being_taken_away() {
    let host = growing();
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    host.driver.next(Method::Expand, [Outcome::HangsDone]);
    host.ask_for(20);
    host.driver.called(Method::Expand, 1).await;
    assert_eq!(host.view().phase, VolumePhase::Expanding);
    // The driver answers after its deadline.
    host.release("a").await.unwrap();
    sleep(MINUTE).await;
    assert_eq!(host.driver.violations(), [""; 0]);
    assert_eq!(host.rows(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_claim_is_read_for_a_driver_that_cannot_grow_it_or_for_a_volume_that_is_only_read() {
    let host = Host::new();
    host.ask_for(20);
    host.want(desired("a", 1)).await;
    host.published("a", "pv-1").await;
    sleep(HOUR).await;
    assert_eq!(host.claims.looks.load(Ordering::Relaxed), 0);
    let host = growing();
    host.want(Publish { claim: None, ..desired("a", 1) }).await;
    host.published("a", "pv-1").await;
    host.want(Publish { read_only: true, ..desired("a", 2) }).await;
    host.published("a", "pv-2").await;
    sleep(HOUR).await;
    assert_eq!(host.claims.looks.load(Ordering::Relaxed), 1, "when the second is mounted, as upstream");
}

#[tokio::test(start_paused = true)]
async fn a_block_device_grows_where_it_is_published_with_the_secrets_for_it() {
    let host = growing();
    host.ask_for(20);
    let missing = "expander.NodeExpand failed to get NodeExpandSecretRef ns/s: no".to_owned();
    let of = |expand_secrets| Publish { form: Form::Block, expand_secrets, ..desired("a", 1) };
    host.want(of(Err(MissingSecret(missing.clone())))).await;
    let expected = format!(
        "MapVolume.MarkVolumeAsMounted failed while expanding volume for volume \"pv-1\" : {missing}"
    );
    assert_eq!(host.failed("a", "pv-1").await, expected);
    assert_eq!((host.expansions(), host.told()), (0, vec![format!("vol-1: {missing}")]));
    let secrets = crate::Secrets([("key".to_owned(), "value".to_owned())].into());
    host.want(of(Ok(secrets.clone()))).await;
    let target = host.published("a", "pv-1").await;
    let Call::Expand(call) = host.driver.called(Method::Expand, 1).await else { panic!() };
    assert_eq!((call.path, call.secrets), (target, secrets));
}

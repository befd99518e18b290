//! The PLEG over a runtime whose lists exceed the size of a message: it observes the same, and does not request them each
//! second.

use std::time::Duration;

use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Failure, FakeRuntime, Fault, Rule};
use tokio::time::{Instant, sleep};

use super::RELIST_THRESHOLD;
use super::history_tests::{beside_pleg, pod, run_pod, runtime};
use super::task::RELIST_PERIOD;

const PODS: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);

/// A runtime with pods of which only lists of a single pod fit into a message.
async fn crowded() -> FakeRuntime {
    let fake = runtime();
    for number in 0..PODS {
        run_pod(&fake, &format!("u{number}")).await;
    }
    fake.set_message_limit(1000);
    fake
}

/// The number of requests for lists of everything.
fn whole_lists(fake: &FakeRuntime) -> usize {
    fake.calls_of(Operation::ListSandboxes).iter().filter(|call| call.pod.is_none()).count()
}

#[tokio::test(start_paused = true)]
async fn every_pod_is_observed_without_a_list_of_all() {
    let fake = crowded().await;
    beside_pleg(&fake, async |pleg| {
        sleep(5 * RELIST_PERIOD).await;
        assert_eq!(pleg.cache().pods().len(), PODS);
        assert!(pleg.health().borrow().error.is_none());
        // Additions, removals and changes are observed too.
        let (_, container) = run_pod(&fake, "new").await;
        sleep(2 * RELIST_PERIOD).await;
        let status = pleg.cache().get(&pod("new")).unwrap();
        assert_eq!(status.containers[0].id, container);
        fake.remove_behind_back(status.sandboxes[0].id.as_str());
        sleep(2 * RELIST_PERIOD).await;
        assert_eq!(pleg.cache().pods().len(), PODS);
        sleep(RELIST_THRESHOLD).await;
        assert!(pleg.health().borrow().is_healthy(Instant::now()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_were_too_large_are_requested_again_only_later() {
    let fake = crowded().await;
    beside_pleg(&fake, async |pleg| {
        sleep(9 * MINUTE).await;
        assert_eq!(whole_lists(&fake), 1);
        sleep(9 * MINUTE).await;
        assert_eq!(whole_lists(&fake), 2);
        fake.set_message_limit(usize::MAX);
        sleep(4 * MINUTE).await;
        assert!(whole_lists(&fake) > 60, "one a second again: {}", whole_lists(&fake));
        assert_eq!(pleg.cache().pods().len(), PODS);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_name_its_pods_is_a_failed_relist() {
    let fake = crowded().await;
    let fault = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
    fake.faults().add(Rule::new(Operation::ListPods, fault));
    beside_pleg(&fake, async |pleg| {
        sleep(5 * RELIST_PERIOD).await;
        assert!(!pleg.cache().is_filled());
        assert!(pleg.health().borrow().error.is_some());
        fake.faults().clear();
        sleep(2 * RELIST_PERIOD).await;
        assert_eq!(pleg.cache().pods().len(), PODS);
        assert!(pleg.health().borrow().error.is_none());
    })
    .await;
}

//! Ranges of the Node and the configuration, sent to an in-memory runtime in paused time.

use serde_json::{Value, json};

use super::*;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Failure, FakeRuntime, Fault, Rule};

const CALL: Operation = Operation::UpdateRuntimeConfig;

fn node(spec: &Value) -> Option<Arc<Node>> {
    let node = json!({"metadata": {"name": "n"}, "spec": spec});
    Some(Arc::new(serde_json::from_value(node).unwrap()))
}

/// Runs the task while `story` runs.
async fn with_task(
    configured: Option<&str>,
    fault: Option<Rule>,
    story: impl AsyncFnOnce(&FakeRuntime, &watch::Sender<Option<Arc<Node>>>),
) {
    let fake = FakeRuntime::new();
    if let Some(rule) = fault {
        fake.faults().add(rule);
    }
    let nodes = watch::Sender::default();
    let task = PodCidrTask {
        runtime: Arc::new(fake.clone()),
        configured: configured.map(str::to_owned),
        node: nodes.subscribe(),
    };
    let cancel = CancellationToken::new();
    let story = async {
        story(&fake, &nodes).await;
        cancel.cancel();
    };
    tokio::join!(task.run(cancel.clone()), story);
}

async fn minutes(minutes: u64) {
    tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
}

#[tokio::test(start_paused = true)]
async fn the_runtime_gets_each_change_once() {
    with_task(None, None, async |fake, nodes| {
        minutes(5).await;
        nodes.send_replace(node(&json!({"podCIDR": "10.1.0.0/24"})));
        minutes(5).await;
        assert_eq!(fake.pod_cidr(), None, "only podCIDRs count, as upstream");
        let both = json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]});
        for _ in 0..3 {
            nodes.send_replace(node(&both));
            minutes(1).await;
        }
        assert_eq!(fake.pod_cidr().as_deref(), Some("10.1.0.0/24,fd00::/64"));
        nodes.send_replace(None);
        minutes(1).await;
        assert_eq!(fake.calls_of(CALL).len(), 1);
        nodes.send_replace(node(&json!({"podCIDRs": ["10.2.0.0/24"]})));
        minutes(1).await;
        assert_eq!((fake.pod_cidr().as_deref(), fake.calls_of(CALL).len()), (Some("10.2.0.0/24"), 2));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_configured_range_counts_until_the_node_has_one() {
    with_task(Some("10.9.0.0/16"), None, async |fake, nodes| {
        minutes(1).await;
        assert_eq!(fake.pod_cidr().as_deref(), Some("10.9.0.0/16"));
        nodes.send_replace(node(&json!({})));
        minutes(1).await;
        assert_eq!(fake.calls_of(CALL).len(), 1);
        nodes.send_replace(node(&json!({"podCIDRs": ["10.1.0.0/24"]})));
        minutes(1).await;
        assert_eq!(fake.pod_cidr().as_deref(), Some("10.1.0.0/24"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_repeated_and_one_that_the_runtime_lacks_is_not() {
    let range = "10.9.0.0/16";
    let rule = |failure| Rule::new(CALL, Fault::Fail { after: Duration::ZERO, failure });
    for failure in [Failure::Unreachable, Failure::TimedOut, Failure::Failed("no".to_owned())] {
        with_task(Some(range), Some(rule(failure.clone()).times(30)), async |fake, _| {
            minutes(10).await;
            let calls = fake.calls_of(CALL);
            let pauses: Vec<u64> =
                calls.windows(2).map(|calls| (calls[1].at - calls[0].at).as_secs()).collect();
            assert_eq!((pauses.len(), &pauses[..5]), (30, &[1, 2, 4, 8, 10][..]), "{failure:?}");
            assert!(pauses[5..].iter().all(|pause| *pause == 10), "{pauses:?}");
            assert_eq!(fake.pod_cidr().as_deref(), Some(range));
        })
        .await;
    }
    with_task(Some(range), Some(rule(Failure::Unimplemented)), async |fake, _| {
        minutes(10).await;
        assert_eq!((fake.calls_of(CALL).len(), fake.pod_cidr()), (1, None));
    })
    .await;
}

//! The task of statuses, on a fake runtime that cannot describe a pod for a while.

use std::pin::pin;

use hostlet_pod::{AdmittedPod, testing};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{FakeRuntime, Fault, Rule};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::pleg::Pleg;
use crate::status::PodFacts;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn who_waits_for_termination_messages_waits_until_the_pod_can_be_inspected() {
    let fake = FakeRuntime::new();
    let pod = AdmittedPod::new(testing::pod("web", "u1", "Always", &["c"]));
    let uid = &pod.reference.uid;
    let id = testing::run(&fake, &pod.reference, None).await;
    let (pleg, pleg_handle) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
    let deps = PodStatusDeps {
        handle: StatusHandle::default(),
        observed: pleg_handle.cache().clone(),
        probes: ProbeResults::default(),
        addresses: NodeAddresses::fixed([]),
        runtime_name: "containerd".to_owned(),
        timeline: Timeline::default(),
        gates: StatusGates::default(),
        clock: WallClock::system(),
    };
    let (handle, status_cache) = (deps.handle.clone(), StatusCache::default());
    let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
    tasks.spawn(pleg.run(cancel.clone()));
    tasks.spawn(PodStatusTask::new(deps, status_cache.clone()).run(cancel.clone()));
    handle.desired(&pod);
    handle.facts(uid, PodFacts::default());
    timeout(MINUTE, handle.settled(uid)).await.unwrap();

    fake.faults().add(Rule::new(Operation::ContainerStatus, Fault::fail("not now")));
    fake.exit_container(&id, 3);
    sleep(MINUTE).await;
    assert!(pleg_handle.cache().get(&pod.reference).is_err());
    let mut settled = pin!(handle.settled(uid));
    assert!(timeout(MINUTE, &mut settled).await.is_err(), "its container would be removed with the message");
    fake.faults().clear();
    timeout(MINUTE, settled).await.unwrap();
    let entry = status_cache.all().pop().unwrap();
    let statuses = entry.status.container_statuses.clone().unwrap_or_default();
    let ended = statuses.into_iter().find_map(|status| status.state?.terminated);
    assert_eq!(ended.map(|ended| ended.exit_code), Some(3));
    cancel.cancel();
    tasks.join_all().await;
}

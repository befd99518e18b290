//! The PLEG over a runtime with random histories, lost hints and failing calls: in the end the cache equals the runtime's
//! state, and so does the sum of the reported events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{
    CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, PodRef, SandboxId,
};
use hostlet_runtime::cri::fake::{EventMode, Failure, FakeRuntime, Fault, Rule, Script};
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata,
};
use hostlet_runtime::cri::{
    ContainerState, CriError, Operation, RuntimeService, SandboxState, SandboxStatus,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::diff::{Listing, ObjectState};
use super::inspect;
use super::task::RELIST_PERIOD;
use super::{LifecycleEvent, ObjectId, Pleg, PlegHandle, RELIST_THRESHOLD};

const PODS: [&str; 3] = ["u0", "u1", "u2"];

/// Bytes that a list of one pod seldom exceeds, and a list of all pods often does.
const LIST_OF_A_POD: usize = 1000;

/// One step of a history. Numbers choose among the existing objects.
#[derive(Clone, Debug)]
enum Step {
    Run(usize),
    Create(usize),
    Start(usize),
    Exit(usize),
    Lose(usize),
    RemoveContainer(usize),
    KillSandbox(usize),
    StopSandbox(usize),
    RemoveSandbox(usize),
    RemoveBehindBack(usize),
    Hint(usize),
    Events(EventMode),
    HangUp,
    Fault(Operation, Fault, usize),
    Release,
    /// Lists larger than this many bytes fail.
    Limit(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        Just(EventMode::Pods),
        Just(EventMode::Objects),
        Just(EventMode::Duplicated),
        Just(EventMode::Lost),
        Just(EventMode::Unimplemented),
    ];
    let operations = prop_oneof![
        Just(Operation::ListSandboxes),
        Just(Operation::ListContainers),
        Just(Operation::SandboxStatus),
        Just(Operation::ContainerStatus),
    ];
    let fault = prop_oneof![
        Just(Fault::fail("boom")),
        Just(Fault::Fail { after: Duration::from_secs(2), failure: Failure::TimedOut }),
        Just(Fault::Fail { after: Duration::ZERO, failure: Failure::NotFound }),
        (1..3000_u64).prop_map(|millis| Fault::Delay(Duration::from_millis(millis))),
        Just(Fault::Hang),
    ];
    let any = 0..100_usize;
    prop_oneof![
        3 => any.clone().prop_map(Step::Run),
        4 => any.clone().prop_map(Step::Create),
        4 => any.clone().prop_map(Step::Start),
        2 => any.clone().prop_map(Step::Exit),
        1 => any.clone().prop_map(Step::Lose),
        2 => any.clone().prop_map(Step::RemoveContainer),
        1 => any.clone().prop_map(Step::KillSandbox),
        1 => any.clone().prop_map(Step::StopSandbox),
        1 => any.clone().prop_map(Step::RemoveSandbox),
        1 => any.clone().prop_map(Step::RemoveBehindBack),
        2 => any.prop_map(Step::Hint),
        1 => mode.prop_map(Step::Events),
        1 => Just(Step::HangUp),
        2 => (operations, fault, 1..4_usize).prop_map(|(operation, fault, times)| Step::Fault(operation, fault, times)),
        1 => Just(Step::Release),
        1 => prop_oneof![Just(LIST_OF_A_POD), Just(usize::MAX)].prop_map(Step::Limit),
        4 => (1..2500_u64).prop_map(Step::Wait),
    ]
}

pub(super) fn pod(uid: &str) -> PodRef {
    PodRef::new("default", uid, uid)
}

fn labels(uid: &str) -> std::collections::HashMap<String, String> {
    let pairs = [(POD_NAME_LABEL, uid), (POD_NAMESPACE_LABEL, "default"), (POD_UID_LABEL, uid)];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn sandbox_config(uid: &str, attempt: u32) -> PodSandboxConfig {
    let (name, uid, namespace) = (uid.to_owned(), uid.to_owned(), "default".to_owned());
    let labels = labels(&uid);
    let metadata = PodSandboxMetadata { name, uid, namespace, attempt };
    PodSandboxConfig { metadata: Some(metadata), labels, ..PodSandboxConfig::default() }
}

fn container_config(uid: &str, name: &str, attempt: u32) -> ContainerConfig {
    let mut labels = labels(uid);
    labels.insert(CONTAINER_NAME_LABEL.to_owned(), name.to_owned());
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt }),
        image: Some(ImageSpec { image: "img".to_owned(), ..ImageSpec::default() }),
        labels,
        ..ContainerConfig::default()
    }
}

pub(super) fn runtime() -> FakeRuntime {
    let fake = FakeRuntime::new();
    fake.add_image("img");
    fake.script("short", Script::exits(Duration::from_millis(700), 1));
    fake
}

/// A pod with one running container.
pub(super) async fn run_pod(fake: &FakeRuntime, uid: &str) -> (SandboxId, ContainerId) {
    let sandbox = fake.run_sandbox(sandbox_config(uid, 0), "").await.unwrap();
    let config = container_config(uid, "c", 0);
    let container = fake.create_container(&sandbox, config, sandbox_config(uid, 0)).await.unwrap();
    fake.start_container(&container).await.unwrap();
    (sandbox, container)
}

/// Runs `history` beside a PLEG over `fake`.
pub(super) async fn beside_pleg<T>(fake: &FakeRuntime, history: impl AsyncFnOnce(PlegHandle) -> T) -> T {
    let (pleg, handle) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
    tokio::select! {
        () = pleg.run(CancellationToken::new()) => panic!("PLEG ended by itself"),
        result = history(handle) => result,
    }
}

fn nth<T: Clone>(items: &[T], choice: usize) -> Option<T> {
    (!items.is_empty()).then(|| items[choice % items.len()].clone())
}

/// Performs one step; a step that the runtime rejects has no effect.
async fn perform(fake: &FakeRuntime, pleg: &PlegHandle, step: Step, attempt: u32) {
    let sandbox = |choice| nth(&fake.wire_sandboxes(), choice);
    let sandbox_id = |choice| sandbox(choice).map(|sandbox| SandboxId::from(sandbox.id));
    let container_id = |choice| nth(&fake.wire_containers(), choice).map(|c| ContainerId::from(c.id));
    match step {
        Step::Run(choice) => {
            let config = sandbox_config(PODS[choice % PODS.len()], attempt);
            fake.run_sandbox(config, "").await.unwrap();
        }
        Step::Create(choice) => {
            if let Some(sandbox) = sandbox(choice) {
                let uid = &sandbox.labels[POD_UID_LABEL];
                let config = container_config(uid, ["long", "short"][choice % 2], attempt);
                let made = fake.create_container(&sandbox.id.into(), config, sandbox_config(uid, 0)).await;
                drop(made);
            }
        }
        Step::Start(choice) => {
            if let Some(id) = container_id(choice) {
                drop(fake.start_container(&id).await);
            }
        }
        Step::Exit(choice) => {
            if let Some(id) = container_id(choice) {
                fake.exit_container(&id, 0);
            }
        }
        Step::Lose(choice) => {
            if let Some(id) = container_id(choice) {
                fake.lose_container(&id);
            }
        }
        Step::RemoveContainer(choice) => {
            if let Some(id) = container_id(choice) {
                fake.remove_container(&id).await.unwrap();
            }
        }
        Step::KillSandbox(choice) => {
            if let Some(id) = sandbox_id(choice) {
                fake.kill_sandbox(&id);
            }
        }
        Step::StopSandbox(choice) => {
            if let Some(id) = sandbox_id(choice) {
                fake.stop_sandbox(&id).await.unwrap();
            }
        }
        Step::RemoveSandbox(choice) => {
            if let Some(id) = sandbox_id(choice) {
                fake.remove_sandbox(&id).await.unwrap();
            }
        }
        Step::RemoveBehindBack(choice) => {
            if let Some(id) = sandbox_id(choice) {
                fake.remove_behind_back(id.as_str());
            }
        }
        Step::Hint(choice) => pleg.relist(&pod(PODS[choice % PODS.len()])),
        Step::Events(mode) => fake.set_event_mode(mode),
        Step::HangUp => fake.hang_up_events(),
        Step::Fault(operation, fault, times) => {
            fake.faults().add(Rule::new(operation, fault).times(times));
        }
        Step::Release => fake.faults().release(),
        Step::Limit(bytes) => fake.set_message_limit(bytes),
        Step::Wait(millis) => sleep(Duration::from_millis(millis)).await,
    }
}

/// The latest reported event of each object that was not removed.
async fn reported(pleg: &PlegHandle) -> BTreeMap<ObjectId, LifecycleEvent> {
    let mut latest = BTreeMap::new();
    while let Ok(change) = timeout(Duration::ZERO, pleg.changes().next()).await {
        latest.extend(change.events);
    }
    latest.retain(|_, event| *event != LifecycleEvent::Removed);
    latest
}

/// The events that the runtime's objects should have led to.
async fn expected_events(fake: &FakeRuntime) -> BTreeMap<ObjectId, LifecycleEvent> {
    let sandboxes = fake.list_sandboxes(None).await.unwrap();
    let containers = fake.list_containers(None).await.unwrap();
    let event = |state| match state {
        ObjectState::Running => LifecycleEvent::Started,
        ObjectState::Exited => LifecycleEvent::Died,
        ObjectState::Created | ObjectState::Unknown => LifecycleEvent::Changed,
    };
    let states = Listing { sandboxes: sandboxes.to_vec(), containers: containers.to_vec() }.states();
    states.into_iter().map(|(id, state)| (id, event(state))).collect()
}

/// Listing pod by pod finds the same as one list of everything.
async fn assert_pod_by_pod_is_everything(fake: &FakeRuntime) {
    let everything = inspect::list_all(fake).await.unwrap();
    let pod_by_pod = inspect::list_pod_by_pod(fake, vec![pod("gone")]).await.unwrap();
    assert_eq!(pod_by_pod.by_pod(), everything.by_pod());
}

async fn assert_cache_is_reality(fake: &FakeRuntime, pleg: &PlegHandle) {
    for uid in PODS {
        let pod = pod(uid);
        let mut observed = pleg.cache().get(&pod).unwrap().as_ref().clone();
        // A listing does not show that a dead sandbox lost its addresses, and nothing reads them.
        let forget_addresses = |sandbox: &mut SandboxStatus| match sandbox.state {
            SandboxState::Ready => {}
            SandboxState::NotReady => sandbox.ips.clear(),
        };
        observed.sandboxes.iter_mut().for_each(forget_addresses);
        let mut sandboxes = Vec::new();
        for sandbox in &*fake.list_sandboxes(Some(&pod.uid)).await.unwrap() {
            sandboxes.push(fake.sandbox_status(&sandbox.id).await.unwrap());
        }
        sandboxes.iter_mut().for_each(forget_addresses);
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.attempt));
        let mut containers = Vec::new();
        for container in &*fake.list_containers(Some(&pod.uid)).await.unwrap() {
            let mut status = fake.container_status(&container.id).await.unwrap();
            status.sandbox = Some(container.sandbox.clone());
            containers.push(status);
        }
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        assert_eq!(observed.sandboxes, sandboxes, "{uid}");
        assert_eq!(observed.containers, containers, "{uid}");
        if let Some(newest) = sandboxes.first().filter(|sandbox| sandbox.state == SandboxState::Ready) {
            assert_eq!(observed.ips, newest.ips, "{uid}");
        }
        let known = pleg.cache().pods().contains(&pod);
        assert_eq!(known, !(sandboxes.is_empty() && containers.is_empty()), "{uid}");
    }
}

/// Performs all steps, then repairs the runtime and compares the PLEG's view with its state.
async fn history(steps: Vec<Step>) {
    let fake = runtime();
    beside_pleg(&fake, async |pleg| {
        for (attempt, step) in (0..).zip(steps) {
            perform(&fake, &pleg, step, attempt).await;
        }
        fake.faults().clear();
        fake.faults().release();
        fake.set_message_limit(usize::MAX);
        assert_pod_by_pod_is_everything(&fake).await;
        // From here on nothing changes: processes that exit by themselves have exited, delayed calls have returned.
        sleep(Duration::from_secs(5)).await;
        let settled = Instant::now();
        for uid in PODS {
            let pod = pod(uid);
            let newer = pleg.cache().newer_than(&pod, Some(settled));
            timeout(2 * RELIST_PERIOD, newer).await.unwrap().unwrap();
        }
        assert_cache_is_reality(&fake, &pleg).await;
        assert_eq!(reported(&pleg).await, expected_events(&fake).await);
        assert!(pleg.health().borrow().error.is_none());
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cache_ends_equal_to_reality(steps in proptest::collection::vec(step(), 0..60)) {
        let executor =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        executor.block_on(history(steps));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_seen_long_before_the_next_relist() {
    let fake = runtime();
    beside_pleg(&fake, async |pleg| {
        let (_, id) = run_pod(&fake, "u0").await;
        sleep(3 * RELIST_PERIOD + RELIST_PERIOD / 10).await;
        fake.exit_container(&id, 7);
        sleep(Duration::from_millis(1)).await;
        let status = pleg.cache().get(&pod("u0")).unwrap();
        assert_eq!((status.containers[0].state, status.containers[0].exit_code), (ContainerState::Exited, 7));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn events_of_a_pod_being_changed_wait_for_the_end_of_the_work() {
    let fake = runtime();
    beside_pleg(&fake, async |pleg| {
        let (sandbox, id) = run_pod(&fake, "u0").await;
        sleep(3 * RELIST_PERIOD + RELIST_PERIOD / 10).await;
        let state = || pleg.cache().get(&pod("u0")).unwrap().containers[0].state;
        let moment = Duration::from_millis(1);
        let (first, second) = (pleg.at_work(&pod("u0")), pleg.at_work(&pod("u0")));
        let calls = fake.calls().len();
        fake.exit_container(&id, 7);
        sleep(moment).await;
        assert_eq!((fake.calls().len(), state()), (calls, ContainerState::Running));
        drop(first);
        sleep(moment).await;
        assert_eq!(state(), ContainerState::Exited);
        let another = container_config("u0", "d", 0);
        fake.create_container(&sandbox, another, sandbox_config("u0", 0)).await.unwrap();
        sleep(moment).await;
        assert_eq!(pleg.cache().get(&pod("u0")).unwrap().containers.len(), 1, "somebody is still at work");
        sleep(RELIST_PERIOD).await;
        assert_eq!(pleg.cache().get(&pod("u0")).unwrap().containers.len(), 2, "the relist sees it");
        drop(second);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_inspection_delays_no_other_pod() {
    let fake = runtime();
    beside_pleg(&fake, async |pleg| {
        let (_, stuck) = run_pod(&fake, "u0").await;
        let (_, other) = run_pod(&fake, "u1").await;
        sleep(2 * RELIST_PERIOD).await;
        fake.set_event_mode(EventMode::Lost);
        fake.faults().add(Rule::new(Operation::ContainerStatus, Fault::Hang).pod(&"u0".into()));
        fake.exit_container(&stuck, 1);
        fake.exit_container(&other, 1);
        sleep(2 * RELIST_THRESHOLD).await;
        let seen = |uid| pleg.cache().get(&pod(uid)).unwrap().containers[0].state;
        assert_eq!((seen("u0"), seen("u1")), (ContainerState::Running, ContainerState::Exited));
        assert!(pleg.health().borrow().is_healthy(Instant::now()));
        let hung = fake.calls_of(Operation::ContainerStatus);
        let hung = hung.iter().filter(|call| call.ended_at.is_none()).count();
        assert_eq!(hung, 1, "a hung inspection is not started again and again");
        let stuck = pod("u0");
        let fresh = pleg.cache().newer_than(&stuck, Some(Instant::now()));
        assert!(timeout(RELIST_THRESHOLD, fresh).await.is_err());
        fake.faults().clear();
        fake.faults().release();
        sleep(2 * RELIST_PERIOD).await;
        assert_eq!(seen("u0"), ContainerState::Exited);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_first_listing_follows_soon_after_the_runtime_answers() {
    let fake = runtime();
    let gone = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
    fake.faults().add(Rule::new(Operation::ListContainers, gone).times(4));
    beside_pleg(&fake, async |pleg| {
        let listed = timeout(RELIST_PERIOD, pleg.cache().newer_than(&pod("u0"), None)).await;
        assert!(listed.unwrap().unwrap().containers.is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_answer_is_unhealthy_until_it_does() {
    let fake = runtime();
    beside_pleg(&fake, async |pleg| {
        run_pod(&fake, "u0").await;
        sleep(2 * RELIST_PERIOD).await;
        let gone = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
        fake.faults().add(Rule::new(Operation::ListContainers, gone));
        let health = pleg.health();
        sleep(RELIST_THRESHOLD / 2).await;
        assert!(health.borrow().is_healthy(Instant::now()));
        assert!(matches!(health.borrow().error, Some(CriError::Unreachable { .. })));
        sleep(RELIST_THRESHOLD).await;
        assert!(!health.borrow().is_healthy(Instant::now()));
        assert_eq!(pleg.cache().get(&pod("u0")).unwrap().containers.len(), 1, "what was seen is kept");
        fake.faults().clear();
        sleep(2 * RELIST_PERIOD).await;
        assert!(health.borrow().is_healthy(Instant::now()) && health.borrow().error.is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn addresses_outlive_the_network() {
    let fake = runtime();
    beside_pleg(&fake, async |pleg| {
        let (sandbox, _) = run_pod(&fake, "u0").await;
        let ips = fake.sandbox_status(&sandbox).await.unwrap().ips;
        sleep(2 * RELIST_PERIOD).await;
        fake.stop_sandbox(&sandbox).await.unwrap();
        sleep(2 * RELIST_PERIOD).await;
        let status = pleg.cache().get(&pod("u0")).unwrap();
        assert_eq!(status.ips, ips);
        assert!(status.sandboxes[0].ips.is_empty());
    })
    .await;
}

//! The fake behaves like containerd, and its controls work as documented.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hostlet_base::{
    CONTAINER_HASH_ANNOTATION, CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL,
    POD_TERMINATION_GRACE_ANNOTATION, POD_UID_LABEL, PodUid, SandboxId,
};
use tokio::time::{Instant, sleep, timeout};

use super::super::wire::{self, ContainerConfig, PodSandboxConfig};
use super::super::{
    ContainerState, ContainerStatus, CriError, ImageService, Operation, RuntimeHint, RuntimeService,
    SandboxState,
};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn labels(uid: &str) -> std::collections::HashMap<String, String> {
    let pairs = [(POD_NAME_LABEL, "web"), (POD_NAMESPACE_LABEL, "default"), (POD_UID_LABEL, uid)];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn sandbox(uid: &str, attempt: u32) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(wire::PodSandboxMetadata {
            name: "web".into(),
            namespace: "default".into(),
            uid: uid.into(),
            attempt,
        }),
        labels: labels(uid),
        log_directory: "/logs".into(),
        ..Default::default()
    }
}

fn container(uid: &str, name: &str, attempt: u32) -> ContainerConfig {
    let mut labels = labels(uid);
    labels.insert(CONTAINER_NAME_LABEL.into(), name.into());
    ContainerConfig {
        metadata: Some(wire::ContainerMetadata { name: name.into(), attempt }),
        image: Some(wire::ImageSpec { image: "busybox".into(), ..Default::default() }),
        log_path: format!("{name}/{attempt}.log"),
        annotations: [(CONTAINER_HASH_ANNOTATION, "ff"), (POD_TERMINATION_GRACE_ANNOTATION, "30")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        labels,
        ..Default::default()
    }
}

fn runtime() -> FakeRuntime {
    let fake = FakeRuntime::new();
    fake.add_image("busybox");
    fake
}

async fn running(fake: &FakeRuntime, uid: &str, name: &str) -> (SandboxId, ContainerId) {
    let pod = fake.run_sandbox(sandbox(uid, 0), "").await.unwrap();
    let id = fake.create_container(&pod, container(uid, name, 0), sandbox(uid, 0)).await.unwrap();
    fake.start_container(&id).await.unwrap();
    (pod, id)
}

async fn status(fake: &FakeRuntime, id: &ContainerId) -> ContainerStatus {
    fake.container_status(id).await.unwrap()
}

async fn elapsed(work: impl Future) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_container_goes_from_created_to_running_to_exited() {
    let fake = runtime();
    let pod = fake.run_sandbox(sandbox("u1", 0), "").await.unwrap();
    let id = fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap();
    let created = status(&fake, &id).await;
    assert_eq!(
        (created.state, created.started_at, created.finished_at),
        (ContainerState::Created, None, None)
    );
    assert_eq!((created.hash, created.grace_seconds), (Some(0xff), Some(30)));
    assert_eq!(created.log_path, "/logs/c/0.log");
    assert_eq!(created.image, "docker.io/library/busybox:latest");
    assert!(created.image_ref.starts_with("docker.io/library/busybox@sha256:"), "{}", created.image_ref);

    sleep(SECOND).await;
    fake.start_container(&id).await.unwrap();
    sleep(SECOND).await;
    fake.exit_container(&id, 3);
    let exited = status(&fake, &id).await;
    assert_eq!((exited.state, exited.exit_code, &*exited.reason), (ContainerState::Exited, 3, "Error"));
    let (started, finished) = (exited.started_at.unwrap(), exited.finished_at.unwrap());
    assert_eq!(started.to_string(), "2026-01-01T00:00:01Z");
    assert_eq!(finished.to_string(), "2026-01-01T00:00:02Z");
    let again = fake.start_container(&id).await.unwrap_err();
    assert!(again.to_string().contains("CONTAINER_EXITED"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn names_are_reserved_until_removal() {
    let fake = runtime();
    let (pod, id) = running(&fake, "u1", "c").await;
    let error = fake.run_sandbox(sandbox("u1", 0), "").await.unwrap_err();
    let name = "web_default_u1_0";
    assert_eq!(
        error.to_string(),
        format!("failed to reserve sandbox name \"{name}\": name \"{name}\" is reserved for \"{pod}\"")
    );
    let error = fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap_err();
    assert!(
        error.to_string().contains(&format!("\"c_web_default_u1_0\" is reserved for \"{id}\"")),
        "{error}"
    );
    fake.remove_container(&id).await.unwrap();
    fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap();
    fake.remove_sandbox(&pod).await.unwrap();
    fake.run_sandbox(sandbox("u1", 0), "").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_a_sandbox_kills_its_containers_and_drops_its_address() {
    let fake = runtime();
    let (pod, id) = running(&fake, "u1", "c").await;
    assert_eq!(fake.sandbox_status(&pod).await.unwrap().ips.len(), 1);
    fake.stop_sandbox(&pod).await.unwrap();
    let stopped = fake.sandbox_status(&pod).await.unwrap();
    assert_eq!((stopped.state, stopped.ips), (SandboxState::NotReady, vec![]));
    assert_eq!(status(&fake, &id).await.exit_code, 137);
    let error = fake.create_container(&pod, container("u1", "d", 0), sandbox("u1", 0)).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    fake.remove_sandbox(&pod).await.unwrap();
    assert!(fake.list_containers(None).await.unwrap().is_empty());
    assert!(fake.list_sandboxes(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn unknown_objects_are_success_for_stops_and_not_found_for_inspections() {
    let fake = runtime();
    let (pod, id) = ("p".into(), "c".into());
    fake.stop_sandbox(&pod).await.unwrap();
    fake.remove_sandbox(&pod).await.unwrap();
    fake.stop_container(&id, 1).await.unwrap();
    fake.remove_container(&id).await.unwrap();
    assert!(fake.sandbox_status(&pod).await.unwrap_err().is_not_found());
    assert!(fake.container_status(&id).await.unwrap_err().is_not_found());
    assert!(fake.start_container(&id).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_dead_sandbox_keeps_its_address_and_takes_no_starts() {
    let fake = runtime();
    let (pod, id) = running(&fake, "u1", "c").await;
    let made = fake.create_container(&pod, container("u1", "d", 0), sandbox("u1", 0)).await.unwrap();
    fake.kill_sandbox(&pod);
    let dead = fake.sandbox_status(&pod).await.unwrap();
    assert_eq!((dead.state, dead.ips.len()), (SandboxState::NotReady, 1));
    assert_eq!(status(&fake, &id).await.state, ContainerState::Running);
    assert!(fake.start_container(&made).await.unwrap_err().to_string().contains("not running"));
}

#[tokio::test(start_paused = true)]
async fn the_host_network_gives_no_address() {
    let fake = runtime();
    let options = wire::NamespaceOption {
        network: wire::NamespaceMode::Node as i32,
        ..wire::NamespaceOption::default()
    };
    let mut config = sandbox("u1", 0);
    config.linux = Some(wire::LinuxPodSandboxConfig {
        security_context: Some(wire::LinuxSandboxSecurityContext {
            namespace_options: Some(options),
            ..Default::default()
        }),
        ..Default::default()
    });
    let pod = fake.run_sandbox(config, "").await.unwrap();
    let status = fake.sandbox_status(&pod).await.unwrap();
    assert_eq!((status.host_network, status.ips), (true, vec![]));
}

#[tokio::test(start_paused = true)]
async fn scripted_runs_follow_each_other_and_the_last_repeats() {
    let fake = runtime();
    let short = Run::Exits { after: 2 * SECOND, code: 1 };
    fake.script("c", Script::runs([short, Run::StartError("no such file".into()), Run::Forever]));
    let (pod, first) = running(&fake, "u1", "c").await;
    sleep(10 * SECOND).await;
    let exited = status(&fake, &first).await;
    assert_eq!(exited.exit_code, 1);
    let lasted = exited.finished_at.unwrap().duration_since(exited.started_at.unwrap());
    assert_eq!(lasted.as_secs(), 2, "an exit is dated when it was due, not when it was looked at");

    let mut ids = Vec::new();
    for attempt in 1..4 {
        let config = container("u1", "c", attempt);
        ids.push(fake.create_container(&pod, config, sandbox("u1", 0)).await.unwrap());
    }
    assert_eq!(fake.start_container(&ids[0]).await.unwrap_err().to_string(), "no such file");
    let failed = status(&fake, &ids[0]).await;
    assert_eq!(
        (failed.state, failed.exit_code, &*failed.reason),
        (ContainerState::Exited, 128, "StartError")
    );
    for id in &ids[1..] {
        fake.start_container(id).await.unwrap();
        sleep(3600 * SECOND).await;
        assert_eq!(status(&fake, id).await.state, ContainerState::Running);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_process_and_kills_it_after_its_grace() {
    let fake = runtime();
    let slow = OnTerm::Exits { after: 3 * SECOND, code: 0 };
    fake.script("slow", Script::forever().on_term(slow));
    fake.script("deaf", Script::forever().on_term(OnTerm::Ignores));
    let cases = [("prompt", 0, 143), ("slow", 3, 0), ("deaf", 10, 137)];
    for (name, seconds, code) in cases {
        let (_, id) = running(&fake, name, name).await;
        let took = elapsed(fake.stop_container(&id, 10)).await;
        assert_eq!((took, status(&fake, &id).await.exit_code), (seconds * SECOND, code), "{name}");
    }
    let (_, id) = running(&fake, "u4", "slow").await;
    assert_eq!(elapsed(fake.stop_container(&id, 0)).await, Duration::ZERO);
    assert_eq!(status(&fake, &id).await.exit_code, 137);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_stop_ends_a_longer_one_and_an_abandoned_stop_does_not_kill() {
    let fake = runtime();
    fake.script("deaf", Script::forever().on_term(OnTerm::Ignores));
    let (_, id) = running(&fake, "u1", "deaf").await;
    assert!(timeout(SECOND, fake.stop_container(&id, 2)).await.is_err());
    sleep(10 * SECOND).await;
    assert_eq!(status(&fake, &id).await.state, ContainerState::Running);
    let both = futures::future::join(fake.stop_container(&id, 30), fake.stop_container(&id, 2));
    assert_eq!(elapsed(both).await, 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn images_are_found_by_every_name_and_containers_need_one() {
    let fake = FakeRuntime::new();
    let pod = fake.run_sandbox(sandbox("u1", 0), "").await.unwrap();
    let error = fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("resolve image"), "{error}");
    let id = fake.pull_image("busybox", None, None).await.unwrap();
    let image =
        fake.image_status("docker.io/library/busybox:latest", &HashMap::new()).await.unwrap().unwrap();
    assert_eq!(image.id, id);
    for name in [&*id, &id["sha256:".len()..], &*image.digests[0], "busybox:latest"] {
        assert_eq!(fake.image_status(name, &HashMap::new()).await.unwrap().as_ref(), Some(&image), "{name}");
    }
    assert_eq!(fake.image_status("busybox:1.36", &HashMap::new()).await.unwrap(), None);
    fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap();
    assert_eq!(fake.list_images().await.unwrap(), vec![image]);
    fake.lose_image("busybox");
    assert_eq!(fake.image_status(&id, &HashMap::new()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn pulls_take_their_time_and_fail_as_scripted() {
    let fake = FakeRuntime::new();
    fake.script_pull("slow", Pull { latency: 5 * SECOND, error: None });
    fake.script_pull("gone", Pull { latency: SECOND, error: Some("no such manifest".into()) });
    assert!(timeout(SECOND, fake.pull_image("slow", None, None)).await.is_err());
    assert_eq!(
        fake.image_status("slow", &HashMap::new()).await.unwrap(),
        None,
        "an abandoned pull has no effect"
    );
    assert_eq!(elapsed(fake.pull_image("slow", None, None)).await, 5 * SECOND);
    assert!(fake.image_status("slow", &HashMap::new()).await.unwrap().is_some());
    assert_eq!(fake.pull_image("gone", None, None).await.unwrap_err().to_string(), "no such manifest");
}

#[tokio::test(start_paused = true)]
async fn faults_befall_the_calls_they_are_for() {
    let fake = runtime();
    let victim: PodUid = "u2".into();
    let rule = Rule::new(Operation::RunSandbox, Fault::fail("boom")).pod(&victim).skip(1).times(1);
    fake.faults().add(rule);
    for (uid, attempt, fails) in [("u1", 0, false), ("u2", 0, false), ("u2", 1, true), ("u2", 2, false)] {
        assert_eq!(fake.run_sandbox(sandbox(uid, attempt), "").await.is_err(), fails, "{uid} {attempt}");
    }
    assert_eq!(fake.list_sandboxes(Some(&victim)).await.unwrap().len(), 2);

    let all = [Failure::Unreachable, Failure::TimedOut, Failure::NotFound, Failure::Unimplemented];
    for failure in all {
        fake.faults().add(Rule::new(Operation::Version, Fault::Fail { after: SECOND, failure }).times(1));
    }
    assert!(matches!(fake.version().await, Err(CriError::Unreachable { .. })));
    assert!(matches!(fake.version().await, Err(CriError::TimedOut { .. })));
    assert!(matches!(fake.version().await, Err(CriError::NotFound { .. })));
    assert!(matches!(fake.version().await, Err(CriError::Unimplemented { .. })));
    assert!(fake.version().await.is_ok());

    fake.faults().add(Rule::new(Operation::Status, Fault::Delay(2 * SECOND)));
    assert_eq!(elapsed(fake.status()).await, 2 * SECOND);
    fake.faults().clear();
    assert_eq!(elapsed(fake.status()).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_late_success_lands_after_its_failure_and_holds_its_name_meanwhile() {
    let fake = runtime();
    let fault =
        Fault::LateSuccess { answer_after: SECOND, failure: Failure::TimedOut, lands_after: 3 * SECOND };
    fake.faults().add(Rule::new(Operation::RunSandbox, fault).times(1));
    let error = fake.run_sandbox(sandbox("u1", 0), "").await.unwrap_err();
    assert!(matches!(error, CriError::TimedOut { .. }), "{error:?}");
    assert!(fake.list_sandboxes(None).await.unwrap().is_empty());
    assert!(
        fake.run_sandbox(sandbox("u1", 0), "").await.unwrap_err().to_string().contains("is reserved for")
    );
    sleep(2 * SECOND).await;
    assert_eq!(fake.list_sandboxes(None).await.unwrap().len(), 1);

    let fault = Fault::LateSuccess {
        answer_after: SECOND,
        failure: Failure::Unreachable,
        lands_after: Duration::ZERO,
    };
    fake.faults().add(Rule::new(Operation::RunSandbox, fault).times(1));
    assert!(timeout(SECOND / 2, fake.run_sandbox(sandbox("u1", 1), "")).await.is_err());
    assert_eq!(
        fake.list_sandboxes(None).await.unwrap().len(),
        2,
        "the caller gave up; it was made all the same"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_creation_that_fails_gives_its_name_back() {
    let fake = runtime();
    let fault = Fault::LateSuccess {
        answer_after: Duration::ZERO,
        failure: Failure::TimedOut,
        lands_after: Duration::ZERO,
    };
    fake.faults().add(Rule::new(Operation::CreateContainer, fault).times(1));
    let pod = fake.run_sandbox(sandbox("u1", 0), "").await.unwrap();
    fake.lose_image("busybox");
    fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap_err();
    fake.add_image("busybox");
    fake.create_container(&pod, container("u1", "c", 0), sandbox("u1", 0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hung_calls_wait_for_their_release() {
    let fake = runtime();
    fake.faults().add(Rule::new(Operation::ListSandboxes, Fault::Hang).times(2));
    assert!(timeout(3600 * SECOND, fake.list_sandboxes(None)).await.is_err());
    let hung = fake.list_sandboxes(None);
    tokio::pin!(hung);
    assert!(hung.as_mut().now_or_never().is_none());
    fake.faults().release();
    assert!(hung.await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_are_logged_and_those_in_flight_counted() {
    let fake = runtime();
    fake.faults().add(Rule::new(Operation::RunSandbox, Fault::Delay(SECOND)).times(2));
    let (first, second) =
        tokio::join!(fake.run_sandbox(sandbox("u1", 0), ""), fake.run_sandbox(sandbox("u2", 0), ""));
    fake.run_sandbox(sandbox("u3", 0), "").await.unwrap();
    assert_ne!(first.unwrap(), second.unwrap());
    let calls = fake.calls_of(Operation::RunSandbox);
    let targets: Vec<&str> = calls.iter().map(|call| &*call.target).collect();
    assert_eq!(targets, ["web_default_u1_0", "web_default_u2_0", "web_default_u3_0"]);
    assert_eq!(calls[0].pod, Some("u1".into()));
    assert_eq!(calls[0].ended_at, Some(calls[0].at + SECOND));
    assert_eq!(fake.peak_in_flight(&[Operation::RunSandbox]), 2);
    assert_eq!(fake.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_changes_and_of_processes_that_end_by_themselves() {
    let fake = runtime();
    fake.script("c", Script::exits(5 * SECOND, 0));
    let mut events = fake.events();
    assert!(events.next().now_or_never().is_none(), "nothing happened yet");
    running(&fake, "u1", "c").await;
    let hint = Some(Ok(RuntimeHint::Pod("u1".into())));
    for change in ["sandbox run", "container created", "container started"] {
        let next = events.next().now_or_never().flatten();
        assert_eq!(next.map(|item| item.map_err(|e| e.to_string())), hint, "{change}");
    }
    let start = Instant::now();
    assert!(events.next().await.unwrap().is_ok());
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn events_can_be_lost_doubled_anonymous_cut_or_missing() {
    let fake = runtime();
    let mut events = fake.events();
    assert!(events.next().now_or_never().is_none());
    fake.set_event_mode(EventMode::Lost);
    let (pod, id) = running(&fake, "u1", "c").await;
    assert!(events.next().now_or_never().is_none());
    fake.set_event_mode(EventMode::Duplicated);
    fake.exit_container(&id, 0);
    for _ in 0..2 {
        assert_eq!(events.next().await.unwrap().unwrap(), RuntimeHint::Pod("u1".into()));
    }
    assert!(events.next().now_or_never().is_none());
    fake.set_event_mode(EventMode::Objects);
    fake.kill_sandbox(&pod);
    assert_eq!(events.next().await.unwrap().unwrap(), RuntimeHint::Object(pod.to_string()));
    fake.remove_behind_back(pod.as_str());
    assert!(events.next().now_or_never().is_none());
    assert!(fake.list_containers(None).await.unwrap().is_empty());
    fake.hang_up_events();
    assert!(matches!(events.next().await, Some(Err(CriError::Unreachable { .. }))));
    assert!(events.next().await.is_none());
    fake.set_event_mode(EventMode::Unimplemented);
    let mut events = fake.events();
    assert!(matches!(events.next().await, Some(Err(CriError::Unimplemented { .. }))));
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lost_container_is_unknown_and_an_oom_kill_says_so() {
    let fake = runtime();
    let (_, id) = running(&fake, "u1", "c").await;
    fake.lose_container(&id);
    assert_eq!(status(&fake, &id).await.state, ContainerState::Unknown);
    let (_, id) = running(&fake, "u2", "c").await;
    fake.oom_kill_container(&id);
    let killed = status(&fake, &id).await;
    assert_eq!((killed.exit_code, &*killed.reason), (137, "OOMKilled"));
}

#[tokio::test(start_paused = true)]
async fn two_runtimes_give_the_same_identifiers_and_one_never_the_same_twice() {
    let (one, two) = (runtime(), runtime());
    let mut seen = std::collections::HashSet::new();
    for attempt in 0..100 {
        let id = one.run_sandbox(sandbox("u1", attempt), "").await.unwrap();
        assert_eq!(id, two.run_sandbox(sandbox("u1", attempt), "").await.unwrap());
        assert_eq!(id.as_str().len(), 64);
        assert!(seen.insert(id));
    }
    let listed = one.list_sandboxes(None).await.unwrap();
    let creations: std::collections::HashSet<_> = listed.iter().map(|s| s.created_at).collect();
    assert_eq!(creations.len(), 100, "made in one instant of tokio's time, and yet one is the newest");
}

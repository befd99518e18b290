//! The order of a pod's life in a whole node: init containers, sidecars, hooks and deadlines.

use std::sync::Arc;
use std::time::Duration;

use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::fake::{Exec, Happened, OnTerm, Script, What};
use hostlet_runtime::cri::{ExecOutput, Operation, Version};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod, pod_with};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(30);

fn edited(pod: &Arc<AdmittedPod>, edit: impl FnOnce(&mut Pod)) -> Arc<AdmittedPod> {
    pod.edited(edit)
}

/// The pod with these init containers.
fn with_inits(pod: &Arc<AdmittedPod>, inits: Value) -> Arc<AdmittedPod> {
    edited(pod, |pod| pod.spec.as_mut().unwrap().init_containers = serde_json::from_value(inits).unwrap())
}

/// The pod whose container at this index has this lifecycle.
fn with_hooks(pod: &Arc<AdmittedPod>, index: usize, lifecycle: Value) -> Arc<AdmittedPod> {
    edited(pod, |pod| {
        pod.spec.as_mut().unwrap().containers[index].lifecycle = serde_json::from_value(lifecycle).unwrap();
    })
}

fn starts(node: &Node) -> Vec<String> {
    let started = |h: &Happened| h.what == What::Started;
    node.runtime.history_after(0).into_iter().filter(started).map(|h| h.name).collect()
}

fn status_of(node: &Node, name: &str) -> Option<ContainerStatus> {
    let status = node.status("u")?;
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.into_iter().find(|status| status.name == name).cloned()
}

fn waits_for(node: &Node, name: &str) -> Option<String> {
    status_of(node, name)?.state?.waiting?.reason
}

fn is_running(node: &Node, name: &str) -> bool {
    status_of(node, name).and_then(|status| status.state).is_some_and(|state| state.running.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_pod_initializes_in_order_and_a_new_daemon_runs_nothing_again() {
    let mut node = Node::new();
    node.runtime.script("first", Script::exits(5 * SECOND, 0));
    node.runtime.script("second", Script::exits(SECOND, 0));
    let inits = json!([
        {"name": "first", "image": "img"},
        {"name": "proxy", "image": "img", "restartPolicy": "Always"},
        {"name": "second", "image": "img"},
    ]);
    node.want([with_inits(&pod("p", "u", &["a", "b"]), inits)]);
    node.until("the first runs", SOON, |node| is_running(node, "first")).await;
    assert_eq!(node.phase("u").as_deref(), Some("Pending"));
    assert_eq!(waits_for(&node, "a").as_deref(), Some("PodInitializing"));
    node.until("all run", SOON, |node| is_running(node, "b")).await;
    assert_eq!(starts(&node), ["first", "proxy", "second", "a", "b"]);
    assert_eq!(node.phase("u").as_deref(), Some("Running"));
    node.stop().await;
    node.boot();
    sleep(10 * SECOND).await;
    assert_eq!(starts(&node).len(), 5);
    assert!(status_of(&node, "first").unwrap().ready && status_of(&node, "proxy").unwrap().ready);
}

#[tokio::test(start_paused = true)]
async fn a_failed_init_container_backs_off_and_under_never_fails_the_pod() {
    for (policy, phase, reason) in
        [("Always", "Pending", Some("CrashLoopBackOff")), ("Never", "Failed", None)]
    {
        let mut node = Node::new();
        node.runtime.script("init", Script::exits(SECOND, 7));
        node.want([with_inits(
            &pod_with("p", "u", policy, &["a"]),
            json!([{"name": "init", "image": "img"}]),
        )]);
        node.until("it shows", SOON, |node| {
            waits_for(node, "init").as_deref() == reason && node.phase("u").as_deref() == Some(phase)
        })
        .await;
        assert!(!starts(&node).contains(&"a".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_counts_as_started_after_its_post_start_hook() {
    let mut node = Node::new();
    node.runtime.script_exec(&["hook"], Exec { takes: 20 * SECOND, ..Exec::default() });
    let hook = json!({"postStart": {"exec": {"command": ["hook"]}}});
    node.want([with_hooks(&pod("p", "u", &["a", "b"]), 0, hook)]);
    node.until("the first started", SOON, |node| starts(node) == ["a"]).await;
    sleep(10 * SECOND).await;
    assert_eq!(waits_for(&node, "a").as_deref(), Some("ContainerCreating"));
    assert_eq!(starts(&node), ["a"], "the next one waits for the hook");
    node.until("both run", SOON, |node| is_running(node, "a") && is_running(node, "b")).await;
    assert_eq!(node.runtime.calls_of(Operation::ExecSync).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_post_start_hook_stops_its_container_and_is_reported() {
    let mut node = Node::new();
    let output = ExecOutput { exit_code: 3, stderr: b"no".to_vec(), ..ExecOutput::default() };
    node.runtime.script_exec(&["hook"], Exec { output, ..Exec::default() });
    let hook = json!({"postStart": {"exec": {"command": ["hook"]}}});
    node.want([with_hooks(&pod("p", "u", &["a"]), 0, hook)]);
    node.until("it shows", SOON, |node| waits_for(node, "a").as_deref() == Some("PostStartHookError")).await;
    let waiting = status_of(&node, "a").unwrap().state.unwrap().waiting.unwrap();
    let message = "Exec lifecycle hook ([hook]) for Container \"a\" in Pod \"p_default(u)\" failed - error: command \
                   'hook' exited with 3: no, message: \"no\"";
    assert_eq!(waiting.message.as_deref(), Some(message));
    assert_eq!(node.events_of("u", "FailedPostStartHook"), 1);
    assert_eq!(node.running("u"), []);
    node.until("it is restarted", 2 * SOON, |node| starts(node).len() >= 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_pre_stop_hook_that_is_out_of_time_ends_with_its_container() {
    // The hook fails in the two seconds that its container has left, or runs until that has ended.
    for seconds in [4, 60] {
        let mut node = Node::new();
        let output = ExecOutput { exit_code: 1, ..ExecOutput::default() };
        node.runtime.script_exec(&["hook"], Exec { takes: seconds * SECOND, output });
        node.runtime.script("a", Script::forever().on_term(OnTerm::Ignores));
        let hook = json!({"preStop": {"exec": {"command": ["hook"]}}});
        let pod = with_hooks(&pod("p", "u", &["a"]), 0, hook);
        node.want([edited(&pod, |pod| {
            pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(3)
        })]);
        node.until("it runs", SOON, |node| is_running(node, "a")).await;
        node.want([]);
        node.until("it is gone", SOON, |node| !node.has("u")).await;
        assert_eq!(node.events_of("u", "FailedPreStopHook"), 1, "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_container_that_was_removed_from_the_runtime_does_not_run_again() {
    let mut node = Node::new();
    node.runtime.script("init", Script::exits(SECOND, 0));
    node.runtime.script("done", Script::exits(SECOND, 3));
    let pod =
        with_inits(&pod_with("p", "u", "Never", &["done", "on"]), json!([{"name": "init", "image": "img"}]));
    node.want([pod.clone()]);
    let code = |node: &Node| status_of(node, "done").and_then(|it| Some(it.state?.terminated?.exit_code));
    node.until("one is done", SOON, |node| code(node) == Some(3) && is_running(node, "on")).await;
    let started = starts(&node);
    for container in node.containers().into_iter().filter(|container| !container.runs) {
        node.runtime.remove_behind_back(&container.id);
    }
    sleep(3 * SOON).await;
    assert_eq!((starts(&node), code(&node)), (started.clone(), Some(3)));
    node.sync_store();
    node.stop().await;
    node.boot();
    node.want([pod]);
    node.until("the next daemon knows", SOON, |node| code(node) == Some(3) && is_running(node, "on")).await;
    sleep(3 * SOON).await;
    assert_eq!((starts(&node), code(&node)), (started, Some(3)));
    assert_eq!(node.phase("u").as_deref(), Some("Running"));
    // In another sandbox, nothing of that counts.
    for sandbox in node.runtime.wire_sandboxes() {
        node.runtime.kill_sandbox(&sandbox.id.as_str().into());
    }
    node.until("it ends", SOON, |node| node.phase("u").as_deref() == Some("Failed")).await;
}

#[tokio::test(start_paused = true)]
async fn the_containers_of_a_terminated_pod_can_be_removed_and_no_others() {
    let mut node = Node::new();
    node.runtime.script("done", Script::exits(SECOND, 3));
    node.runtime.script("crash", Script::exits(SECOND, 1));
    let ended = pod_with("p", "u", "Never", &["done"]);
    node.want([ended, pod("q", "v", &["on"]), pod_with("r", "w", "OnFailure", &["crash"])]);
    let code = |node: &Node| status_of(node, "done").and_then(|it| Some(it.state?.terminated?.exit_code));
    node.until("it has ended", SOON, |node| node.phase("u").as_deref() == Some("Failed")).await;
    let others = |node: &Node| {
        let all = node.containers();
        let has = |name: &str, runs: bool| all.iter().any(|it| it.name == name && it.runs == runs);
        has("on", true) && has("crash", false)
    };
    node.until("the others ran", SOON, others).await;
    sleep(SOON).await;
    let dead = node.dead_containers();
    let removed = dead.delete_all().await;
    assert_eq!((removed.containers, removed.failed), (1, 0), "{removed:?}");
    assert!(others(&node));
    sleep(SOON).await;
    assert_eq!((node.phase("u").as_deref(), code(&node)), (Some("Failed"), Some(3)));
    let of_ended = node.runtime.history_after(0).into_iter().filter(|happened| happened.pod.as_str() == "u");
    let instances: std::collections::BTreeSet<_> = of_ended.map(|happened| happened.id).collect();
    assert_eq!(instances.len(), 1, "it does not run again");
    assert_eq!(dead.delete_all().await.containers, 0);
}

#[tokio::test(start_paused = true)]
async fn changed_definitions_are_no_crashes() {
    let mut node = Node::new();
    node.want([pod("p", "u", &["a"])]);
    node.until("it runs", SOON, |node| is_running(node, "a")).await;
    for attempt in 1..7 {
        let image = format!("img:{attempt}");
        node.runtime.add_image(&image);
        node.want([edited(&pod("p", "u", &["a"]), |pod| {
            pod.spec.as_mut().unwrap().containers[0].image = Some(image);
        })]);
        node.until("it is replaced", SOON, |node| node.running("u") == [("a".to_owned(), attempt)]).await;
    }
    let running = node.containers().into_iter().find(|container| container.runs).unwrap();
    node.runtime.exit_container(&running.id.as_str().into(), 1);
    node.until("the first crash is restarted at once", 5 * SECOND, |node| {
        node.running("u") == [("a".to_owned(), 7)]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn why_a_container_was_stopped_stays_known() {
    let mut node = Node::new();
    node.want([pod("p", "u", &["a"])]);
    node.until("it runs", SOON, |node| is_running(node, "a")).await;
    let first = node.containers().pop().unwrap().id;
    node.runtime.add_image("img:2");
    node.want([edited(&pod("p", "u", &["a"]), |pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some("img:2".to_owned());
    })]);
    node.until("it is replaced", SOON, |node| node.running("u") == [("a".to_owned(), 1)]).await;
    let kills = node.doing("u").unwrap().kills;
    assert_eq!(kills.iter().map(|kill| kill.id.as_str()).collect::<Vec<_>>(), [&*first]);
    assert!(kills[0].why.contains("definition changed"), "{kills:?}");
}

#[tokio::test(start_paused = true)]
async fn requested_restarts_are_no_crashes() {
    let mut node = Node::new();
    node.want([pod("p", "u", &["a"])]);
    let newest = |node: &Node| node.containers().pop().unwrap();
    let runs = |node: &Node, attempt| node.running("u") == [("a".to_owned(), attempt)];
    node.until("it runs", SOON, |node| is_running(node, "a")).await;
    for attempt in 1..7 {
        node.restart("u", &newest(&node).id).await;
        node.until("it is replaced", SOON, |node| runs(node, attempt)).await;
    }
    node.runtime.exit_container(&newest(&node).id.as_str().into(), 1);
    node.until("the first crash is restarted at once", 5 * SECOND, |node| runs(node, 7)).await;
    node.runtime.exit_container(&newest(&node).id.as_str().into(), 1);
    node.until("the second one waits", 5 * SECOND, |node| {
        waits_for(node, "a").as_deref() == Some("CrashLoopBackOff")
    })
    .await;
    // A request does not wait for that.
    node.restart("u", &newest(&node).id).await;
    node.until("it is started on request", 5 * SECOND, |node| runs(node, 8)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_hook_and_holds_across_a_restart() {
    let mut node = Node::new();
    node.runtime.script_exec(&["hook"], Exec { takes: 1000 * SECOND, ..Exec::default() });
    let hook = json!({"postStart": {"exec": {"command": ["hook"]}}});
    let brief = edited(&with_hooks(&pod("p", "u", &["a"]), 0, hook), |pod| {
        pod.spec.as_mut().unwrap().active_deadline_seconds = Some(60);
    });
    let began = Instant::now();
    node.want([brief]);
    node.until("it fails", 3 * SOON, |node| node.phase("u").as_deref() == Some("Failed")).await;
    let took = began.elapsed();
    assert!(took >= 59 * SECOND && took < 65 * SECOND, "{took:?}");
    let status = node.status("u").unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(node.events_of("u", "DeadlineExceeded"), 1);
    node.until("nothing runs", SOON, |node| node.running("u").is_empty()).await;
    node.stop().await;
    node.boot();
    node.until("it still failed", SOON, |node| node.phase("u").as_deref() == Some("Failed")).await;
    sleep(10 * SECOND).await;
    assert_eq!(starts(&node).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_by_a_pod_that_waits_to_retry() {
    let mut node = Node::new();
    let stuck = edited(&pod("p", "u", &["a"]), |pod| {
        let spec = pod.spec.as_mut().unwrap();
        spec.active_deadline_seconds = Some(33);
        spec.containers[0].image = Some("none:1".to_owned());
        spec.containers[0].image_pull_policy = Some("Never".to_owned());
    });
    let began = Instant::now();
    node.want([stuck]);
    node.until("it fails", 3 * SOON, |node| node.phase("u").as_deref() == Some("Failed")).await;
    let took = began.elapsed();
    assert!(took >= 32 * SECOND && took < 35 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_runs_once_in_a_running_pod() {
    let mut node = Node::new();
    node.runtime.script("debug", Script::exits(SECOND, 1));
    let pod = pod("p", "u", &["a"]);
    node.want([pod.clone()]);
    node.until("it runs", SOON, |node| is_running(node, "a")).await;
    let debug = json!([{"name": "debug", "image": "img", "imagePullPolicy": "IfNotPresent", "targetContainerName": "a"}]);
    node.want([edited(&pod, |pod| {
        pod.spec.as_mut().unwrap().ephemeral_containers = serde_json::from_value(debug).unwrap();
    })]);
    let exit_code = |node: &Node| {
        let status = node.status("u")?;
        let state = status.ephemeral_container_statuses.as_ref()?.first()?.state.clone()?;
        Some(state.terminated?.exit_code)
    };
    node.until("it has ended", SOON, |node| exit_code(node) == Some(1)).await;
    sleep(120 * SECOND).await;
    assert_eq!(starts(&node), ["a", "debug"]);
    assert_eq!(node.phase("u").as_deref(), Some("Running"));
    let containers = node.containers();
    let target = &containers.iter().find(|seen| seen.name == "a").unwrap().id;
    let debug = &containers.iter().find(|seen| seen.name == "debug").unwrap().id;
    let config = node.runtime.container_config(&debug.as_str().into()).unwrap();
    let namespaces = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
    assert_eq!((namespaces.pid, &namespaces.target_id), (3, target));
}

#[tokio::test(start_paused = true)]
async fn a_stop_signal_is_reported_or_has_no_effect_with_an_old_runtime() {
    for (runtime_version, ignored, reported) in [("1.6.20", 1, None), ("2.4.2", 0, Some("SIGINT"))] {
        let mut node = Node::new();
        node.runtime.set_version(Version {
            runtime_name: "containerd".to_owned(),
            runtime_version: runtime_version.to_owned(),
            api_version: "v1".to_owned(),
        });
        node.want([with_hooks(&pod("p", "u", &["a"]), 0, json!({"stopSignal": "SIGINT"}))]);
        node.until("it runs", SOON, |node| is_running(node, "a")).await;
        assert_eq!(node.events_of("u", "StopSignalIgnored"), ignored, "{runtime_version}");
        let id = node.containers()[0].id.as_str().into();
        assert_eq!(node.runtime.container_config(&id).unwrap().stop_signal, 10);
        let signal = status_of(&node, "a").unwrap().stop_signal;
        assert_eq!(signal.as_deref(), reported, "{runtime_version}");
    }
}

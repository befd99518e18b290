//! The order of a pod's life: init containers, sidecars, main containers, and back.

use hostlet_integration::real::{BUSYBOX_IMAGE, RealHost, containerd_version};
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::Container;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, SOON, is_ready, running_containers, statuses, wait_for_pod};

/// A container that appends its name to a file on the pod's volume, then runs `script`. What it appends when it is stopped
/// is the script's matter.
fn recording(name: &str, script: &str) -> Value {
    json!({
        "name": name,
        "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", format!("echo {name} >> /life/log; {script}")],
        "volumeMounts": [{"name": "life", "mountPath": "/life"}],
    })
}

fn sidecar(name: &str, script: &str) -> Value {
    let mut container = recording(name, script);
    container["restartPolicy"] = json!("Always");
    container
}

/// A script that sleeps until SIGTERM and then records it, after `delay` seconds.
fn recorded_stop(name: &str, delay: u32) -> String {
    format!(
        "trap 'sleep {delay}; echo {name} stopped >> /life/log; exit 0' TERM; while :; do sleep 0.1; done"
    )
}

fn manifest(name: &str, policy: &str, dir: &std::path::Path, inits: Vec<Value>, mains: Vec<Value>) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 20,
            "restartPolicy": policy,
            "volumes": [{"name": "life", "hostPath": {"path": dir, "type": "Directory"}}],
            "initContainers": inits,
            "containers": mains,
        },
    })
    .to_string()
}

fn init_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default()
}

fn lines(dir: &std::path::Path) -> Vec<String> {
    let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

fn name_of(container: &Container) -> &str {
    container.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

#[tokio::test]
async fn init_containers_and_sidecars_start_in_order_and_stop_in_reverse() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let inits = vec![
        recording("first", "true"),
        sidecar("proxy", &recorded_stop("proxy", 0)),
        recording("second", "sleep 1"),
        sidecar("shipper", &recorded_stop("shipper", 0)),
    ];
    let pod =
        manifest("life", "Always", dir.path(), inits, vec![recording("main", &recorded_stop("main", 1))]);
    host.write_manifest("life.json", &pod).unwrap();
    wait_for("the start in order", SOON, async || {
        let seen = lines(dir.path());
        Ok(if seen.len() >= 5 { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
    let pod = wait_for_pod(&daemon, "life", SOON, is_ready).await.unwrap();
    assert_eq!(lines(dir.path()), ["first", "proxy", "second", "shipper", "main"]);
    let shown: Vec<_> = init_statuses(&pod).iter().map(|s| (s.name.as_str(), s.ready, s.started)).collect();
    let (done, up) = (Some(false), Some(true));
    assert_eq!(
        shown,
        [("first", true, done), ("proxy", true, up), ("second", true, done), ("shipper", true, up)]
    );

    // A daemon that is killed and one that ends well: neither runs anything again.
    let before = host.cri().containers().await.unwrap().len();
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_for_pod(&daemon, "life", SOON, is_ready).await.unwrap();
    assert_eq!((lines(dir.path()).len(), host.cri().containers().await.unwrap().len()), (5, before));

    // A sidecar that is killed starts again, and nothing else does.
    let all = host.cri().containers().await.unwrap();
    let proxy = all.iter().find(|container| name_of(container) == "proxy").unwrap();
    host.cri().kill_container(&proxy.id).await.unwrap();
    let restarted = |pod: &Pod| is_ready(pod) && init_statuses(pod)[1].restart_count == 1;
    let pod = wait_for_pod(&daemon, "life", SOON, restarted).await.unwrap();
    assert_eq!(statuses(&pod)[0].restart_count, 0);
    assert_eq!(lines(dir.path())[5..], ["proxy"]);

    host.remove_manifest("life.json").unwrap();
    let expected = ["main stopped", "shipper stopped", "proxy stopped"];
    wait_for("the stop in order", SOON, async || {
        let seen = lines(dir.path());
        Ok(if seen.len() >= 9 { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
    assert_eq!(lines(dir.path())[6..], expected);
}

#[tokio::test]
async fn a_failing_init_container_backs_off_and_a_dead_sandbox_runs_all_again() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let script = "test -e /life/ready || exit 3";
    let pod = manifest(
        "retry",
        "Always",
        dir.path(),
        vec![recording("init", script)],
        vec![recording("main", IDLE)],
    );
    host.write_manifest("retry.json", &pod).unwrap();
    let pod = wait_for_pod(&daemon, "retry", LATER, |pod| {
        let status = init_statuses(pod).first();
        let waiting = status.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        waiting == Some("CrashLoopBackOff")
    });
    let pod = pod.await.unwrap();
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    let waiting = statuses(&pod)[0].state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
    let output = daemon.command(&["explain", "retry"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("Init container init"), "{told}");

    std::fs::write(dir.path().join("ready"), "").unwrap();
    wait_for_pod(&daemon, "retry", LATER, is_ready).await.unwrap();
    let runs = lines(dir.path()).iter().filter(|line| *line == "init").count();
    let sandbox = host.cri().sandboxes().await.unwrap()[0].id.clone();
    host.cri().stop_sandbox(&sandbox).await.unwrap();
    wait_for("the init container in the new sandbox", SOON, async || {
        let seen = lines(dir.path());
        let again = seen.iter().filter(|line| *line == "init").count() == runs + 1;
        let mains = seen.iter().filter(|line| *line == "main").count();
        Ok(if again && mains == 2 { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
    wait_for_pod(&daemon, "retry", SOON, is_ready).await.unwrap();
}

#[tokio::test]
async fn a_job_with_a_sidecar_completes() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let inits = vec![sidecar("proxy", &recorded_stop("proxy", 0))];
    let pod = manifest(
        "job",
        "Never",
        dir.path(),
        inits,
        vec![recording("work", "sleep 1; echo done >> /life/log")],
    );
    host.write_manifest("job.json", &pod).unwrap();
    let is_done = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Succeeded");
    wait_for_pod(&daemon, "job", SOON, is_done).await.unwrap();
    assert_eq!(lines(dir.path()), ["proxy", "work", "done", "proxy stopped"]);
    assert!(running_containers(&host).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_exit_code_restarts_all_containers_in_place() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut main = recording("main", "test -e /life/again && sleep 100000; touch /life/again; exit 9");
    main["restartPolicy"] = json!("Never");
    main["restartPolicyRules"] =
        json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]);
    let pod = manifest(
        "again",
        "Never",
        dir.path(),
        vec![recording("init", "true"), sidecar("proxy", IDLE)],
        vec![main, recording("other", IDLE)],
    );
    host.write_manifest("again.json", &pod).unwrap();
    let restarted = |pod: &Pod| is_ready(pod) && statuses(pod).iter().all(|status| status.restart_count == 1);
    let pod = wait_for_pod(&daemon, "again", SOON, restarted).await.unwrap();
    assert!(init_statuses(&pod).iter().all(|status| status.restart_count == 1), "{pod:#?}");
    assert_eq!(host.cri().sandboxes().await.unwrap().len(), 1, "the sandbox is kept");
    let seen = lines(dir.path());
    let starts = |name: &str| seen.iter().filter(|line| *line == name).count();
    assert_eq!(["init", "proxy", "main", "other"].map(starts), [2; 4], "{seen:?}");
    assert_eq!(seen[4], "init", "{seen:?}");
}

#[tokio::test]
async fn hooks_run_after_the_start_and_before_the_stop_and_once() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let record =
        |what: &str| json!({"exec": {"command": ["sh", "-c", format!("sleep 1; echo {what} >> /life/log")]}});
    let mut main = recording("main", &recorded_stop("main", 0));
    main["lifecycle"] = json!({"postStart": record("started"), "preStop": record("stopping")});
    let mut other = recording("other", &recorded_stop("other", 0));
    other["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 6}}});
    host.write_manifest("hooks.json", &manifest("hooks", "Always", dir.path(), vec![], vec![main, other]))
        .unwrap();
    let pod = wait_for_pod(&daemon, "hooks", SOON, is_ready).await.unwrap();
    let seen = lines(dir.path());
    // The next container starts after the hook.
    assert_eq!(seen[..2], ["main", "started"], "{seen:?}");
    assert!(statuses(&pod).iter().all(|status| status.restart_count == 0));

    // A daemon that is killed in the middle of a pause: the next one goes on with it, and runs no hook again.
    host.remove_manifest("hooks.json").unwrap();
    wait_for("the first preStop hook", SOON, async || {
        let seen = lines(dir.path());
        let has_run = seen.iter().any(|line| line == "stopping");
        Ok(if has_run { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_for("the stop of both", SOON, async || {
        let seen = lines(dir.path());
        let stopped = seen.iter().filter(|line| line.ends_with(" stopped")).count();
        Ok(if stopped == 2 { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
    let seen = lines(dir.path());
    assert_eq!(seen.iter().filter(|line| *line == "stopping").count(), 1, "{seen:?}");
    drop(daemon);
}

#[tokio::test]
async fn a_container_whose_post_start_hook_fails_is_stopped_and_explained() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut main = recording("main", IDLE);
    let command = json!(["sh", "-c", "echo no luck >&2; exit 4"]);
    main["lifecycle"] = json!({"postStart": {"exec": {"command": command}}});
    host.write_manifest("unhooked.json", &manifest("unhooked", "Always", dir.path(), vec![], vec![main]))
        .unwrap();
    let pod = wait_for_pod(&daemon, "unhooked", SOON, |pod| {
        let waiting = statuses(pod).first().and_then(|status| status.state.as_ref()?.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("PostStartHookError")
    });
    let pod = pod.await.unwrap();
    let waiting = statuses(&pod)[0].state.as_ref().unwrap().waiting.as_ref().unwrap();
    let uid = pod.metadata.uid.as_deref().unwrap();
    let message = format!(
        "Exec lifecycle hook ([sh -c echo no luck >&2; exit 4]) for Container \"main\" in Pod \"unhooked-node1_default({uid})\" \
         failed - error: command 'sh -c echo no luck >&2; exit 4' exited with 4: no luck\n, message: \"no luck\\n\""
    );
    assert_eq!(waiting.message.as_deref(), Some(message.as_str()));
}

#[tokio::test]
async fn a_pod_ends_at_its_deadline_also_across_a_restart_of_the_daemon() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let pod = manifest("brief", "Always", dir.path(), vec![], vec![recording("main", IDLE)]);
    let mut pod: Value = serde_json::from_str(&pod).unwrap();
    pod["spec"]["activeDeadlineSeconds"] = json!(8);
    host.write_manifest("brief.json", &pod.to_string()).unwrap();
    wait_for_pod(&daemon, "brief", SOON, is_ready).await.unwrap();
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let failed = |pod: &Pod| pod.status.as_ref().unwrap().reason.as_deref() == Some("DeadlineExceeded");
    let pod = wait_for_pod(&daemon, "brief", SOON, failed).await.unwrap();
    let status = pod.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(
        status.message.as_deref(),
        Some("Pod was active on the node longer than the specified deadline")
    );
    wait_for("no running container", SOON, async || {
        let running = running_containers(&host).await?;
        Ok(if running.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{running:?}")) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_hook_by_http_reaches_its_container_whatever_it_answers() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let script = "mkdir -p /www/cgi-bin; \
        printf '#!/bin/sh\\necho called by $HTTP_USER_AGENT >> /life/log\\nprintf \"Status: 500 no\\\\r\\\\n\\\\r\\\\n\"\\n' > /www/cgi-bin/stop; \
        chmod +x /www/cgi-bin/stop; httpd -p 8080 -h /www; \
        trap 'echo main stopped >> /life/log; exit 0' TERM; while :; do sleep 0.1; done";
    let mut main = recording("main", script);
    main["ports"] = json!([{"name": "web", "containerPort": 8080}]);
    main["lifecycle"] = json!({"preStop": {"httpGet": {"path": "/cgi-bin/stop", "port": "web"}}});
    host.write_manifest("web.json", &manifest("web", "Always", dir.path(), vec![], vec![main])).unwrap();
    wait_for_pod(&daemon, "web", SOON, is_ready).await.unwrap();
    host.remove_manifest("web.json").unwrap();
    wait_for("the stop", SOON, async || {
        let seen = lines(dir.path());
        let has_stopped = seen.iter().any(|line| line == "main stopped");
        Ok(if has_stopped { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
    let seen = lines(dir.path());
    assert!(seen[1].starts_with("called by kube-lifecycle/"), "{seen:?}");
}

#[tokio::test]
async fn a_container_is_stopped_with_its_signal_where_the_runtime_knows_it() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("featureGates: {ContainerStopSignals: true}\n").await.unwrap();
    let on = |signal: &str| format!("trap 'echo {signal} >> /life/log; exit 0' {signal}");
    let mut main = recording("main", &format!("{}; {}; while :; do sleep 0.1; done", on("INT"), on("TERM")));
    main["lifecycle"] = json!({"stopSignal": "SIGINT"});
    let pod = manifest("signal", "Always", dir.path(), Vec::new(), vec![main]);
    let mut pod: Value = serde_json::from_str(&pod).unwrap();
    pod["spec"]["os"] = json!({"name": "linux"});
    host.write_manifest("signal.json", &pod.to_string()).unwrap();
    let pod = wait_for_pod(&daemon, "signal", SOON, is_ready).await.unwrap();
    let events = daemon.cli(&["events", "signal"]).unwrap();
    let is_known = containerd_version().unwrap() >= (2, 3);
    assert_eq!(statuses(&pod)[0].stop_signal.as_deref(), is_known.then_some("SIGINT"));
    assert_eq!(events.contains("The stop signal SIGINT has no effect"), !is_known, "{events}");

    host.remove_manifest("signal.json").unwrap();
    let expected = ["main", if is_known { "INT" } else { "TERM" }];
    wait_for("the signal", SOON, async || {
        let seen = lines(dir.path());
        Ok(if seen == expected { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
    .unwrap();
}

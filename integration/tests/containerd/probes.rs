//! Probes of real containers: what they decide, that nothing of them is left, and that a restart of the daemon changes nothing.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use hostlet_integration::real::{BUSYBOX_IMAGE, RealHost};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{IDLE, LATER, SOON, exec, pod, statuses, wait_for_pod, wait_until_ready};

/// A pod of one container, `c`, which runs this script with these probes.
fn probed(name: &str, script: &str, probes: &Value) -> String {
    let mut container = json!({
        "name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
        "ports": [{"name": "http", "containerPort": 8080}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    for (key, value) in probes.as_object().unwrap() {
        container[key] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 2, "containers": [container],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    })
    .to_string()
}

fn by(command: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1})
}

fn status(pod: &Pod) -> ContainerStatus {
    statuses(pod).first().cloned().unwrap_or_default()
}

#[tokio::test]
async fn probes_decide_whether_a_container_has_started_and_is_ready() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let serve = "mkdir /www; echo ok > /www/ok; httpd -f -p 8080 -h /www & sleep 3; touch /v/up; wait";
    let mut startup = by("test -e /v/up");
    startup["failureThreshold"] = json!(1000);
    let probes = json!({
        "startupProbe": startup,
        "readinessProbe": {"httpGet": {"path": "/ok", "port": "http"}, "periodSeconds": 1, "failureThreshold": 2},
        "livenessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    });
    host.write_manifest("web.json", &probed("web", serve, &probes)).unwrap();
    let starting =
        wait_for_pod(&daemon, "web", SOON, |pod| status(pod).state.is_some_and(|s| s.running.is_some()));
    let starting = status(&starting.await.unwrap());
    assert_eq!((starting.started, starting.ready), (Some(false), false), "{starting:?}");
    let ready = wait_until_ready(&daemon, "web").await.unwrap();
    assert_eq!((status(&ready).started, status(&ready).restart_count), (Some(true), 0));

    assert!(exec(&daemon, "web", &[], &["rm", "/www/ok"]).status.success());
    let unready = wait_for_pod(&daemon, "web", SOON, |pod| !status(pod).ready);
    assert_eq!(status(&unready.await.unwrap()).started, Some(true));
    let explained = daemon.command(&["explain", "web"]).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    let sentence =
        "Container c is not ready: its readiness probe fails: HTTP probe failed with statuscode: 404";
    assert!(explained.contains(sentence), "{explained}");
    let events = daemon.cli(&["events", "web"]).unwrap();
    assert!(events.contains("Readiness probe failed: HTTP probe failed with statuscode: 404"), "{events}");
    let timeline = daemon.cli(&["timeline", "web"]).unwrap();
    for step in ["c has started", "c is ready", "c is not ready"] {
        assert!(timeline.contains(step), "{timeline}");
    }
    assert!(exec(&daemon, "web", &[], &["sh", "-c", "echo ok > /www/ok"]).status.success());
    wait_until_ready(&daemon, "web").await.unwrap();
}

#[tokio::test]
async fn a_container_whose_liveness_probe_fails_is_restarted() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    // Only the first instance falls ill.
    let script = format!(
        "touch /v/well; if [ ! -e /v/second ]; then touch /v/second; sleep 2; rm /v/well; fi; {IDLE}"
    );
    let probes = json!({"livenessProbe": by("cat /v/well")});
    host.write_manifest("ill.json", &probed("ill", &script, &probes)).unwrap();
    let restarted =
        wait_for_pod(&daemon, "ill", LATER, |pod| status(pod).restart_count == 1 && status(pod).ready);
    restarted.await.unwrap();
    let events = daemon.cli(&["events", "ill"]).unwrap();
    assert!(events.contains("Container c failed liveness probe, will be restarted"), "{events}");
    assert!(events.contains("Liveness probe failed: cat: can't open '/v/well'"), "{events}");
}

/// The status of the pod's only init container.
fn sidecar(pod: &Pod) -> ContainerStatus {
    let statuses = pod.status.as_ref().and_then(|status| status.init_container_statuses.clone());
    statuses.unwrap_or_default().pop().unwrap_or_default()
}

/// Whether a condition of the pod is true.
fn is_true(pod: &Pod, condition: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|found| found.type_ == condition && found.status == "True")
}

#[tokio::test]
async fn the_probes_of_a_sidecar_delay_main_containers_count_for_the_pod_and_restart_it_alone() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut manifest: Value = serde_json::from_str(&probed("meshed", IDLE, &json!({}))).unwrap();
    let mut proxy = manifest["spec"]["containers"][0].clone();
    proxy["name"] = json!("proxy");
    proxy["restartPolicy"] = json!("Always");
    // Every instance is well and ready, and has started when it is told to.
    proxy["command"] = json!(["sh", "-c", format!("rm -f /v/ill; touch /v/ready; {IDLE}")]);
    proxy["startupProbe"] = by("test -e /v/up");
    proxy["startupProbe"]["failureThreshold"] = json!(1000);
    proxy["readinessProbe"] = by("cat /v/ready");
    proxy["livenessProbe"] = by("test ! -e /v/ill");
    manifest["spec"]["initContainers"] = json!([proxy]);
    host.write_manifest("meshed.json", &manifest.to_string()).unwrap();
    let tell = |command: &str| {
        let told = exec(&daemon, "meshed", &["--container", "proxy"], &["sh", "-c", command]);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    };

    // The main container waits for the startup probe.
    let runs = |pod: &Pod| sidecar(pod).state.is_some_and(|state| state.running.is_some());
    wait_for_pod(&daemon, "meshed", SOON, runs).await.unwrap();
    wait_for("failed startup probes", SOON, async || {
        let events = daemon.cli(&["events", "meshed"])?;
        Ok(if events.contains("Startup probe failed") { Look::Done(()) } else { Look::NotYet(events) })
    })
    .await
    .unwrap();
    let starting = pod(&daemon, "meshed").unwrap().unwrap();
    let waiting = status(&starting).state.and_then(|state| state.waiting).and_then(|waiting| waiting.reason);
    assert_eq!(waiting.as_deref(), Some("PodInitializing"));
    assert_eq!((sidecar(&starting).started, sidecar(&starting).ready), (Some(false), false));
    assert!(!is_true(&starting, "Initialized"));
    tell("touch /v/up");
    let is_whole = |pod: &Pod| is_true(pod, "Ready") && sidecar(pod).ready && status(pod).ready;
    let ready = wait_for_pod(&daemon, "meshed", SOON, is_whole).await.unwrap();
    assert_eq!(sidecar(&ready).started, Some(true));
    let (main, proxy) = (status(&ready).container_id, sidecar(&ready).container_id);

    // Its readiness counts for the pod, and restarts nothing.
    tell("rm /v/ready");
    let unready = wait_for_pod(&daemon, "meshed", SOON, |pod| !is_true(pod, "Ready")).await.unwrap();
    assert_eq!((sidecar(&unready).ready, status(&unready).ready), (false, true));
    assert!(!is_true(&unready, "ContainersReady") && is_true(&unready, "Initialized"));
    tell("touch /v/ready");
    let ready = wait_for_pod(&daemon, "meshed", SOON, is_whole).await.unwrap();
    assert_eq!(sidecar(&ready).container_id, proxy);

    // Its liveness restarts it alone. It is probed like the first time, and the main container runs on.
    tell("rm /v/up; touch /v/ill");
    let restarted = |pod: &Pod| sidecar(pod).restart_count == 1 && sidecar(pod).started == Some(false);
    let restarted = wait_for_pod(&daemon, "meshed", LATER, restarted).await.unwrap();
    assert!(!is_true(&restarted, "Ready"));
    let events = daemon.cli(&["events", "meshed"]).unwrap();
    assert!(events.contains("Init container proxy failed liveness probe"), "{events}");
    wait_for_pod(&daemon, "meshed", LATER, runs).await.unwrap();
    tell("touch /v/up");
    let ready = wait_for_pod(&daemon, "meshed", LATER, is_whole).await.unwrap();
    assert_eq!((status(&ready).container_id, status(&ready).restart_count), (main, 0));
    assert_eq!(sidecar(&ready).restart_count, 1);
    assert_ne!(sidecar(&ready).container_id, proxy);
}

#[tokio::test]
async fn a_command_that_exceeds_its_time_limit_is_gone() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let unique = format!("{}", 100_000 + std::process::id());
    let mut probe =
        json!({"exec": {"command": ["sleep", unique]}, "periodSeconds": 600, "timeoutSeconds": 2});
    probe["failureThreshold"] = json!(1);
    host.write_manifest("slow.json", &probed("slow", IDLE, &json!({"readinessProbe": probe}))).unwrap();
    let command = wait_for("the command", SOON, async || {
        Ok(processes(&unique)
            .first()
            .map_or_else(|| Look::NotYet(String::new()), |id| Look::Done(id.clone())))
    })
    .await
    .unwrap();
    let text = format!("Readiness probe failed: command timed out: \"sleep {unique}\" timed out after 2s");
    wait_for(&text, SOON, async || {
        let events = daemon.cli(&["events", "slow"])?;
        Ok(if events.contains(&text) { Look::Done(()) } else { Look::NotYet(events) })
    })
    .await
    .unwrap();
    // The probe runs again soon, as it has not succeeded yet.
    assert!(!processes(&unique).contains(&command));
}

/// The IDs of the processes with this argument.
fn processes(argument: &str) -> Vec<OsString> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let has = |line: Vec<u8>| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes());
    let matching = all.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(has));
    matching.map(|entry| entry.file_name()).collect()
}

#[tokio::test]
async fn a_ready_pod_stays_ready_whatever_happens_to_the_daemon() {
    let host = RealHost::start().await.unwrap();
    let mut daemon = host.start_hostlet("").await.unwrap();
    let probes = json!({
        "startupProbe": by("test ! -e /v/probed"),
        "readinessProbe": by("echo >> /v/probed"),
        "livenessProbe": by("true"),
    });
    host.write_manifest("keen.json", &probed("keen", IDLE, &probes)).unwrap();
    let first = wait_until_ready(&daemon, "keen").await.unwrap();
    let id = status(&first).container_id;
    for kills in 0..4 {
        // A result is on the disk within a moment.
        let probed = probes_of(&daemon);
        wait_for("two more probes", SOON, async || {
            let now = probes_of(&daemon);
            Ok(if now >= probed + 2 { Look::Done(()) } else { Look::NotYet(now.to_string()) })
        })
        .await
        .unwrap();
        match kills % 2 {
            0 => daemon.kill().unwrap(),
            _ => drop(daemon.stop().await.unwrap()),
        }
        daemon = host.start_hostlet("").await.unwrap();
        let begun = Instant::now();
        let mut shown = 0;
        // Well past the first probes of the new daemon, every view is looked at.
        while begun.elapsed() < Duration::from_secs(4) {
            if let Some(status) =
                pod(&daemon, "keen").unwrap().filter(|pod| pod.status.is_some()).map(|pod| status(&pod))
                && status.container_id.is_some()
            {
                assert_eq!((status.ready, status.started, status.restart_count), (true, Some(true), 0));
                assert_eq!(status.container_id, id);
                shown += 1;
            }
        }
        assert!(shown > 0);
    }
}

/// How often the readiness probe ran.
fn probes_of(daemon: &hostlet_integration::real::Daemon) -> usize {
    let probed = exec(daemon, "keen", &[], &["cat", "/v/probed"]).stdout;
    probed.split(|byte| *byte == b'\n').count()
}

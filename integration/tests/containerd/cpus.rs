//! CPUs that a pod has for itself, as the kernel has them, over restarts and a broken state file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use hostlet_integration::real::{BUSYBOX_IMAGE, RealHost};
use hostlet_integration::{Look, wait_for};
use serde_json::{Value, json};

use crate::support::{SOON, statuses, wait_for_pod, wait_until_ready};

/// One CPU is reserved.
const CONFIG: &str = "cpuManagerPolicy: static\ncpuManagerReconcilePeriod: 1s\nkubeReserved: {cpu: \"1\"}\n";

/// A pod that writes again and again to a file on which CPUs it may run.
fn recording(name: &str, dir: &Path, resources: &Value) -> String {
    let script = format!(
        "trap 'exit 0' TERM; while :; do grep Cpus_allowed_list /proc/self/status > /seen/{name}.new; \
         mv /seen/{name}.new /seen/{name}; sleep 0.2; done"
    );
    let container = json!({
        "name": "c",
        "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", script],
        "resources": resources,
        "volumeMounts": [{"name": "seen", "mountPath": "/seen"}],
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            "volumes": [{"name": "seen", "hostPath": {"path": dir, "type": "Directory"}}],
        },
    })
    .to_string()
}

/// Requests and limits of a guaranteed pod.
fn guaranteed(cpus: usize) -> Value {
    let amounts = json!({"cpu": cpus.to_string(), "memory": "32Mi"});
    json!({"requests": amounts, "limits": amounts})
}

/// The CPUs in the kernel's list format.
fn cpus(list: &str) -> Result<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().context("a CPU")?..=last.parse::<u32>().context("a CPU")?);
    }
    Ok(cpus)
}

/// Waits until a pod has seen CPUs that satisfy the condition.
async fn wait_for_cpus(
    dir: &Path,
    name: &str,
    is_expected: impl Fn(&BTreeSet<u32>) -> bool,
) -> Result<BTreeSet<u32>> {
    wait_for(&format!("the CPUs of {name}"), SOON, async || {
        let seen = fs::read_to_string(dir.join(name)).unwrap_or_default();
        let Some((_, list)) = seen.split_once(':') else { return Ok(Look::NotYet("nothing".to_owned())) };
        let seen = cpus(list)?;
        Ok(if is_expected(&seen) { Look::Done(seen) } else { Look::NotYet(format!("{seen:?}")) })
    })
    .await
}

#[tokio::test]
async fn a_guaranteed_pod_has_its_cpus_for_itself_whatever_restarts() {
    let host = RealHost::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let all = cpus(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap()).unwrap();
    assert!(all.len() >= 2, "a CPU for the system and one for the pod");
    let daemon = host.start_hostlet(CONFIG).await.unwrap();
    host.write_manifest("shared.json", &recording("shared", dir.path(), &json!({}))).unwrap();
    wait_until_ready(&daemon, "shared").await.unwrap();
    wait_for_cpus(dir.path(), "shared", |seen| *seen == all).await.unwrap();

    host.write_manifest("own.json", &recording("own", dir.path(), &guaranteed(1))).unwrap();
    wait_until_ready(&daemon, "own").await.unwrap();
    let own = wait_for_cpus(dir.path(), "own", |seen| seen.len() == 1).await.unwrap();
    let others: BTreeSet<u32> = all.difference(&own).copied().collect();
    wait_for_cpus(dir.path(), "shared", |seen| *seen == others).await.unwrap();

    // As many as are left, with one that is reserved.
    host.write_manifest("many.json", &recording("many", dir.path(), &guaranteed(others.len()))).unwrap();
    let is_rejected = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.status.as_ref().and_then(|status| status.reason.as_deref()) == Some("UnexpectedAdmissionError")
    };
    let pod = wait_for_pod(&daemon, "many", SOON, is_rejected).await.unwrap();
    let message = pod.status.unwrap().message.unwrap();
    assert!(message.contains("not enough cpus available to satisfy request"), "{message}");
    host.remove_manifest("many.json").unwrap();

    let state = host.kubelet_root().join("cpu_manager_state");
    let recorded = format!("\"c\":\"{}\"", own.first().unwrap());
    assert!(fs::read_to_string(&state).unwrap().contains(&recorded));
    daemon.kill().unwrap();
    for broken in [false, true] {
        if broken {
            fs::write(&state, "{ broken").unwrap();
        }
        let daemon = host.start_hostlet(CONFIG).await.unwrap();
        let pod = wait_until_ready(&daemon, "own").await.unwrap();
        assert_eq!(statuses(&pod)[0].restart_count, 0);
        wait_for("the CPUs are recorded", SOON, async || {
            let content = fs::read_to_string(&state)?;
            Ok(if content.contains(&recorded) { Look::Done(()) } else { Look::NotYet(content) })
        })
        .await
        .unwrap();
        wait_for_cpus(dir.path(), "own", |seen| *seen == own).await.unwrap();
        wait_for_cpus(dir.path(), "shared", |seen| *seen == others).await.unwrap();
        daemon.kill().unwrap();
    }

    let daemon = host.start_hostlet(CONFIG).await.unwrap();
    host.remove_manifest("own.json").unwrap();
    wait_for_cpus(dir.path(), "shared", |seen| *seen == all).await.unwrap();
    daemon.stop().await.unwrap();
}

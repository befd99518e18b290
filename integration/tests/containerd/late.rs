//! Calls that outlive their deadline or client and take effect later. A container's creation is blocked by a seccomp profile that is
//! a named pipe, which containerd reads. A sandbox is blocked by the lock of the network's addresses; containerd cancels it with its
//! client, so the cancellation is hidden from it here.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::PodSandboxState;
use nix::sys::stat::Mode;
use serde_json::json;
use tokio::time::sleep;

use crate::support::{
    IDLE, LATER, is_ready, manifest, running_containers, uid, wait_for_pod, wait_until_empty,
    wait_until_no_strays,
};

/// A profile that permits everything.
const PROFILE: &[u8] = br#"{"defaultAction": "SCMP_ACT_ALLOW"}"#;
const SHORT: &str = "runtimeRequestTimeout: 2s\n";

/// Creates the pipe at the path of the seccomp profile.
fn pipe(host: &RealHost) -> PathBuf {
    let path = host.kubelet_root().join("seccomp/slow.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    path
}

/// Unblocks one reader of the pipe: the one that waits, or the next.
fn feed(pipe: &Path) -> thread::JoinHandle<std::io::Result<()>> {
    let pipe = pipe.to_owned();
    thread::spawn(move || File::options().write(true).open(pipe)?.write_all(PROFILE))
}

/// A pod whose container has the pipe as its profile.
fn held_up() -> String {
    let profile = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "slow.json"}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", IDLE], "securityContext": profile,
            }],
        },
    })
    .to_string()
}

async fn wait_for_log(daemon: &Daemon, text: &str) -> Result<()> {
    wait_for(text, LATER, async || {
        let log = daemon.log();
        Ok(if log.contains(text) { Look::Done(()) } else { Look::NotYet(log) })
    })
    .await
}

#[tokio::test]
async fn a_create_that_succeeds_after_its_deadline_is_adopted() {
    let host = RealHost::start().await.unwrap();
    let pipe = pipe(&host);
    let daemon = host.start_hostlet(SHORT).await.unwrap();
    host.write_manifest("late.json", &held_up()).unwrap();
    wait_for_log(&daemon, "create_container: no answer within 2s").await.unwrap();
    // The next attempts run into the first one, which continues in the runtime.
    wait_for_log(&daemon, "failed to reserve container name").await.unwrap();
    let explained = wait_for("the explanation", LATER, async || {
        let output = daemon.command(&["explain", "late"]).output()?;
        let explanation = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_reported = explanation.contains("is still processing an earlier attempt with the same name");
        Ok(if is_reported { Look::Done(()) } else { Look::NotYet(explanation) })
    });
    explained.await.unwrap();

    // Only once: another creation would block forever.
    let fed = feed(&pipe);
    let pod = wait_for_pod(&daemon, "late", LATER, is_ready).await.unwrap();
    fed.join().unwrap().unwrap();
    let containers = host.cri().containers().await.unwrap();
    let [container] = &containers[..] else { panic!("{containers:?}") };
    assert_eq!(container.metadata.as_ref().map(|metadata| metadata.attempt), Some(0));
    wait_until_no_strays(&host, &HashSet::from([uid(&pod)])).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_that_succeeds_after_its_deadline_is_adopted() {
    let host = RealHost::start().await.unwrap();
    let held = host.hold_up_addresses().unwrap();
    let daemon = host.start_hostlet_that_cannot_cancel(SHORT).await.unwrap();
    host.write_manifest("late.json", &manifest("late", &[("c", IDLE)])).unwrap();
    // The deadline of a sandbox start is twice that of other calls.
    wait_for_log(&daemon, "run_podsandbox: no answer within 4s").await.unwrap();
    // The next attempts run into the first one, which continues in the runtime.
    wait_for_log(&daemon, "failed to reserve sandbox name").await.unwrap();

    drop(held);
    let pod = wait_for_pod(&daemon, "late", LATER, is_ready).await.unwrap();
    let sandboxes = host.cri().sandboxes().await.unwrap();
    let [sandbox] = &sandboxes[..] else { panic!("{sandboxes:?}") };
    assert_eq!(sandbox.metadata.as_ref().map(|metadata| metadata.attempt), Some(0));
    assert_eq!(running_containers(&host).await.unwrap().values().collect::<Vec<_>>(), [&0]);
    wait_until_no_strays(&host, &HashSet::from([uid(&pod)])).await.unwrap();

    host.remove_manifest("late.json").unwrap();
    wait_until_empty(&host).await.unwrap();
    wait_until_no_strays(&host, &HashSet::new()).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_in_creation_during_shutdown_is_adopted() {
    let host = RealHost::start().await.unwrap();
    let held = host.hold_up_addresses().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("late.json", &manifest("late", &[("c", IDLE)])).unwrap();
    let called = wait_for("the call for the sandbox", LATER, async || {
        let timeline = daemon.cli(&["timeline", "late"]).unwrap_or_else(|error| error.to_string());
        let is_requested = timeline.lines().any(|line| line.split_whitespace().any(|word| word == "sandbox"));
        Ok(if is_requested { Look::Done(()) } else { Look::NotYet(timeline) })
    });
    called.await.unwrap();

    let release = async {
        sleep(Duration::from_millis(500)).await;
        drop(held);
    };
    let (ended, ()) = tokio::join!(daemon.stop(), release);
    assert!(ended.unwrap().success());
    let before = host.cri().sandboxes().await.unwrap();
    assert_eq!(before.iter().map(|it| it.state()).collect::<Vec<_>>(), [PodSandboxState::SandboxReady]);

    let daemon = host.start_hostlet("").await.unwrap();
    let pod = wait_for_pod(&daemon, "late", LATER, is_ready).await.unwrap();
    let after = host.cri().sandboxes().await.unwrap();
    assert_eq!(after.iter().map(|it| &it.id).collect::<Vec<_>>(), [&before[0].id]);
    wait_until_no_strays(&host, &HashSet::from([uid(&pod)])).await.unwrap();
}

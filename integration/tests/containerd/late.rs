//! A create that outlives its deadline and takes effect later. A seccomp profile that is a named pipe holds it up: containerd
//! reads it while it makes a container, and waits until somebody writes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use nix::sys::stat::Mode;
use serde_json::json;

use crate::support::{IDLE, LATER, is_ready, uid, wait_for_pod};

/// A profile that permits everything.
const PROFILE: &[u8] = br#"{"defaultAction": "SCMP_ACT_ALLOW"}"#;
const SHORT: &str = "runtimeRequestTimeout: 2s\n";

/// Makes the pipe where hostlet tells containerd to read the profile.
fn pipe(host: &RealHost) -> PathBuf {
    let path = host.kubelet_root().join("seccomp/slow.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    path
}

/// Lets one reader of the pipe go on, now or when it comes.
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
    // The next tries meet the first one, which goes on in the runtime.
    wait_for_log(&daemon, "failed to reserve container name").await.unwrap();
    let explained = daemon.command(&["explain", "late"]).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("still works on an earlier attempt of the same name"), "{explained}");

    // Once: whoever made another container would wait for ever.
    let fed = feed(&pipe);
    let pod = wait_for_pod(&daemon, "late", LATER, is_ready).await.unwrap();
    fed.join().unwrap().unwrap();
    let containers = host.cri().containers().await.unwrap();
    let [container] = &containers[..] else { panic!("{containers:?}") };
    assert_eq!(container.metadata.as_ref().map(|metadata| metadata.attempt), Some(0));
    assert_eq!(host.strays(&HashSet::from([uid(&pod)])).await.unwrap(), Vec::<String>::new());
}

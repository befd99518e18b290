//! Logs and their rotation on a real containerd: nothing that a container writes is lost or doubled.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hostlet_integration::real::{BUSYBOX_IMAGE, RealHost};
use hostlet_integration::{Look, wait_for};
use serde_json::json;

use crate::support::{IDLE, LATER, SOON, manifest, uid, wait_for_log, wait_for_pod, wait_until_ready};

/// The smallest values: logs of 200 KiB, looked at every 3 s.
const ROTATION: &str =
    "containerLogMaxSize: 200Ki\ncontainerLogMaxFiles: 60\ncontainerLogMonitorInterval: 3s\n";

/// Lines that `WRITER` writes, about 9 MB of a log in 40 s, so that it is rotated at each look.
const LINES: u64 = 200_000;
const WRITER: &str =
    "n=0; while [ $n -lt 200 ]; do seq $((n * 1000)) $((n * 1000 + 999)); n=$((n + 1)); sleep 0.2; done";

/// The files of a container's first log, by name.
fn files(log: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(log.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

fn log_of(host: &RealHost, pod: &k8s_openapi::api::core::v1::Pod) -> PathBuf {
    host.logs().join(format!("default_{}_{}/main/0.log", pod.metadata.name.clone().unwrap(), uid(pod)))
}

/// Asserts that a text is the numbers from 0 up to this one, a line each.
fn assert_sequence(text: &str, count: u64) {
    let mut expected = 0;
    for line in text.lines() {
        assert_eq!(line.parse(), Ok(expected), "after {expected} lines");
        expected += 1;
    }
    assert_eq!(expected, count);
}

#[tokio::test]
async fn no_line_is_lost_or_doubled_by_rotations_and_a_restart() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet(ROTATION).await.unwrap();
    let spec = json!({
        "terminationGracePeriodSeconds": 2,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", WRITER]}],
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "namespace": "default"}, "spec": spec});
    host.write_manifest("app.json", &pod.to_string()).unwrap();
    let pod = wait_until_ready(&daemon, "app").await.unwrap();
    let log = log_of(&host, &pod);
    let rotations = async |count: usize| {
        wait_for("rotations", LATER, async || {
            let files = files(&log);
            Ok(if files.len() > count { Look::Done(()) } else { Look::NotYet(format!("{files:?}")) })
        })
        .await
        .unwrap();
    };
    rotations(3).await;
    daemon.kill().unwrap();
    let daemon = host.start_hostlet(ROTATION).await.unwrap();
    wait_for_pod(&daemon, "app", SOON, |_| true).await.unwrap();
    let mut following = Command::new(daemon.program());
    following.args(["logs", "app", "-f", "--socket"]).arg(daemon.socket()).stdout(Stdio::piped());
    let mut following = following.spawn().unwrap();
    let mut output = following.stdout.take().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    rotations(10).await;
    // It ends with the container.
    let text = tokio::time::timeout(LATER, reading).await.unwrap().unwrap().unwrap();
    assert!(following.wait().unwrap().success());
    assert_sequence(&text, LINES);
    assert_sequence(&daemon.cli(&["logs", "app"]).unwrap(), LINES);
    let tail = daemon.cli(&["logs", "app", "--tail", "150000"]).unwrap();
    assert_eq!((tail.lines().count(), tail.lines().next()), (150_000, Some("50000")));
    let names: Vec<String> = files(&log).iter().map(|path| path.to_string_lossy().into_owned()).collect();
    assert!(names.iter().filter(|name| name.ends_with(".gz")).count() >= 9, "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
}

#[tokio::test]
async fn only_as_many_files_remain_as_configured() {
    let host = RealHost::start().await.unwrap();
    let config = "containerLogMaxSize: 1Ki\ncontainerLogMaxFiles: 3\ncontainerLogMonitorInterval: 3s\n";
    let daemon = host.start_hostlet(config).await.unwrap();
    let writer = "trap 'exit 0' TERM; while true; do seq 1 1000; sleep 1 & wait $!; done";
    host.write_manifest("app.json", &manifest("app", &[("main", writer), ("quiet", IDLE)])).unwrap();
    let pod = wait_until_ready(&daemon, "app").await.unwrap();
    let log = log_of(&host, &pod);
    let compressed =
        |files: &[PathBuf]| files.iter().find(|file| file.extension().is_some_and(|e| e == "gz")).cloned();
    let first = wait_for("a compressed log", SOON, async || {
        let files = files(&log);
        Ok(compressed(&files).map_or_else(|| Look::NotYet(format!("{files:?}")), Look::Done))
    })
    .await
    .unwrap();
    // It is replaced by the next ones, and never are there more.
    wait_for("the next rotation", SOON, async || {
        let files = files(&log);
        assert!(files.len() <= 4, "one of them unfinished: {files:?}");
        Ok(if files.contains(&first) { Look::NotYet(format!("{files:?}")) } else { Look::Done(()) })
    })
    .await
    .unwrap();
    let quiet = log.parent().unwrap().parent().unwrap().join("quiet/0.log");
    assert_eq!(files(&quiet).len(), 1, "a log that does not grow is left alone");
}

#[tokio::test]
async fn a_log_that_a_killed_daemon_renamed_is_opened_again() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet(ROTATION).await.unwrap();
    let writer =
        "trap 'exit 0' TERM; n=0; while true; do echo line $n; n=$((n + 1)); sleep 0.1 & wait $!; done";
    host.write_manifest("app.json", &manifest("app", &[("main", writer)])).unwrap();
    let pod = wait_until_ready(&daemon, "app").await.unwrap();
    wait_for_log(&host, &pod, "main", "line 5\n").await.unwrap();
    daemon.kill().unwrap();
    let log = log_of(&host, &pod);
    fs::rename(&log, log.with_added_extension("20260101-000000")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let daemon = host.start_hostlet(ROTATION).await.unwrap();
    wait_for("a new log", SOON, async || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        Ok(if text.contains("line") { Look::Done(()) } else { Look::NotYet(text) })
    })
    .await
    .unwrap();
    let text = daemon.cli(&["logs", "app"]).unwrap();
    let expected: String = (0..text.lines().count()).map(|number| format!("line {number}\n")).collect();
    assert_eq!(text, expected);
}

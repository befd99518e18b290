//! The harness itself: containerd, a sandbox and a container created by hand, and their removal.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use hostlet_integration::real::{CriSandbox, RealHost, leftovers};
use hostlet_integration::{Look, wait_for};

use crate::support::SOON;

const SERVE: &str =
    "mkdir /www && echo hello from $HOSTNAME > /www/index.html && exec httpd -f -p 80 -h /www";

#[tokio::test]
async fn a_sandbox_serves_http_and_leaves_nothing() {
    let host = RealHost::start().await.unwrap();
    let sandbox = CriSandbox::new("web", host.id(), &host.logs()).labels(&[("app", "web")]);
    let id = host.cri().run_sandbox(&sandbox).await.unwrap();
    let container = host.cri().run_container(&sandbox, &id, "httpd", &["sh", "-c", SERVE]).await.unwrap();

    let sandboxes = host.cri().sandboxes().await.unwrap();
    assert_eq!(sandboxes.len(), 1, "{sandboxes:?}");
    assert_eq!(sandboxes[0].labels["app"], "web");
    let containers = host.cri().containers().await.unwrap();
    assert_eq!(containers.iter().map(|c| &c.id).collect::<Vec<_>>(), [&container]);

    let ip = host.cri().sandbox_ip(&id).await.unwrap();
    let page = wait_for("the page", SOON, async || host.http_get(&ip, "/").map(Look::Done)).await.unwrap();
    assert_eq!(page, "hello from web\n");

    // The pod still runs: dropping the host must remove it too.
    assert_ne!(leftovers(host.id()).unwrap(), Vec::<String>::new(), "a running host is seen");
    let id = host.id().to_owned();
    drop(host);
    assert_eq!(leftovers(&id).unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn sandboxes_can_be_removed_by_hand() {
    let host = RealHost::start().await.unwrap();
    let sandbox = CriSandbox::new("idle", host.id(), &host.logs());
    let id = host.cri().run_sandbox(&sandbox).await.unwrap();
    host.cri().run_container(&sandbox, &id, "sleep", &["sleep", "1000"]).await.unwrap();
    host.cri().remove_sandbox(&id).await.unwrap();
    assert!(host.cri().sandboxes().await.unwrap().is_empty());
    assert!(host.cri().containers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_broken_disk_is_whole_after_a_mount_whoever_still_has_the_old_one() {
    let host = RealHost::start_on_disks(256 << 20, 16 << 20).await.unwrap();
    let disk = &host.disks()[1];
    fs::write(disk.at().join("synced"), "kept").unwrap();
    let mut other = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", "echo; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    disk.break_down().unwrap();
    assert!(fs::write(disk.at().join("refused"), "").is_err());
    disk.remount().unwrap();
    let written = fs::write(disk.at().join("written"), "");
    let kept = fs::read_to_string(disk.at().join("synced"));
    // It ends with its input.
    drop(other.stdin.take());
    other.wait().unwrap();
    written.unwrap();
    assert_eq!(kept.unwrap(), "kept");
}

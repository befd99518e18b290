//! The progress of a slow pull is shown.

use std::process::Output;

use anyhow::{Context, Result};
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, RealHost};
use hostlet_integration::{Look, wait_for};

use crate::support::{IDLE, LATER, SOON, is_ready, manifest, wait_for_pod};

fn output_of(daemon: &Daemon, args: &[&str]) -> Result<String> {
    let Output { stdout, stderr, .. } = daemon.command(args).output().context("running hostlet")?;
    Ok(format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

#[tokio::test]
async fn a_pull_in_progress_shows_its_progress() {
    let host = RealHost::start().await.unwrap();
    let registry = host.slow_registry().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let image = registry.reference().to_owned();
    host.write_manifest("slow.json", &manifest("slow", &[("idle", IDLE)]).replace(BUSYBOX_IMAGE, &image))
        .unwrap();

    // Manifest and configuration alone are less than a megabyte.
    let progress = "MB have arrived.";
    let pods = wait_for("most of the image", SOON, async || {
        let pods = output_of(&daemon, &["pods"])?;
        Ok(if pods.contains(progress) { Look::Done(pods) } else { Look::NotYet(pods) })
    });
    let pods = pods.await.unwrap();
    let pull = format!("Image {image} is being pulled for default/slow-node1, for ");
    assert!(pods.contains(&pull), "{pods}");
    let images = output_of(&daemon, &["images"]).unwrap();
    assert!(images.contains(&pull) && images.contains(progress), "{images}");
    let explained = output_of(&daemon, &["explain", "slow"]).unwrap();
    assert!(explained.contains("is being pulled for container idle"), "{explained}");
    assert!(explained.contains(progress), "{explained}");

    registry.go_on();
    wait_for_pod(&daemon, "slow", LATER, is_ready).await.unwrap();
    let pods = output_of(&daemon, &["pods"]).unwrap();
    assert!(!pods.contains("is being pulled"), "{pods}");
}

//! Unused images on a real runtime: shown, and removed on request; those of pods, of archives and of sandboxes stay.

use std::fs;

use hostlet_integration::real::{ArchiveForm, BUSYBOX_IMAGE, RealHost};
use hostlet_integration::{Look, wait_for};

use crate::support::{IDLE, LATER, SOON, is_ready, manifest, wait_for_pod, wait_until_ready};

#[tokio::test]
async fn only_images_that_nothing_uses_are_removed() {
    const KEPT: &str = "hostlet.local/kept:1";
    const UNUSED: &str = "hostlet.local/unused:1";
    let host = RealHost::start().await.unwrap();
    host.write_archive("kept.tar", KEPT, ArchiveForm::Oci).unwrap();
    host.write_archive("unused.tar", UNUSED, ArchiveForm::Oci).unwrap();
    let daemon = host.start_hostlet("imageMinimumGCAge: 1ms").await.unwrap();
    host.write_manifest("pod.json", &manifest("pod", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "pod").await.unwrap();

    // Without its archive, an image is like any other.
    let shown = async |what: &str, is_shown: &dyn Fn(&str) -> bool| {
        wait_for(what, SOON, async || {
            let shown = daemon.cli(&["images", "--unused"])?;
            Ok(if is_shown(&shown) { Look::Done(()) } else { Look::NotYet(shown) })
        })
        .await
        .unwrap();
    };
    let line = |shown: &str, image: &str| -> Option<String> {
        shown.lines().find(|line| line.starts_with(image)).map(str::to_owned)
    };
    let is_kept =
        |shown: &str, image: &str| line(shown, image).is_some_and(|line| line.contains("its archive is in"));
    shown("both images", &|shown| is_kept(shown, KEPT) && is_kept(shown, UNUSED)).await;
    fs::remove_file(host.archives().join("unused.tar")).unwrap();
    shown("an image without an archive", &|shown| {
        is_kept(shown, KEPT) && line(shown, UNUSED).is_some_and(|line| line.contains("on request"))
    })
    .await;

    let removed = daemon.cli(&["images", "prune"]).unwrap();
    assert!(removed.contains(&format!("removed {UNUSED}")), "{removed}");
    for image in [KEPT, BUSYBOX_IMAGE, "pause"] {
        assert!(!removed.contains(image), "{removed}");
    }
    let present = host.ctr(&["images", "ls", "-q"]).unwrap();
    for (image, is_present) in [(KEPT, true), (BUSYBOX_IMAGE, true), ("pause", true), (UNUSED, false)] {
        assert_eq!(present.contains(image), is_present, "{image}: {present}");
    }
    // Nothing was harmed, and new pods can be made.
    let policy = format!("{KEPT}\",\"imagePullPolicy\":\"Never");
    let second = manifest("second", &[("idle", IDLE)]).replace(BUSYBOX_IMAGE, &policy);
    host.write_manifest("second.json", &second).unwrap();
    wait_for_pod(&daemon, "second", LATER, is_ready).await.unwrap();
    wait_until_ready(&daemon, "pod").await.unwrap();
}

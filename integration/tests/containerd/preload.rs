//! Images that exist only as archives: at start-up, added later, and a broken one.

use std::fs;

use hostlet_integration::real::{ArchiveForm, BUSYBOX_IMAGE, RealHost};
use hostlet_integration::{Look, wait_for};

use crate::support::{IDLE, LATER, SOON, is_ready, manifest, statuses, wait_for_pod, wait_until_ready};

/// The manifest of a pod that runs `image`, and never pulls it.
fn preloaded(name: &str, image: &str) -> String {
    let policy = format!("{image}\",\"imagePullPolicy\":\"Never");
    manifest(name, &[("idle", IDLE)]).replace(BUSYBOX_IMAGE, &policy)
}

#[tokio::test]
async fn pods_run_images_that_exist_only_as_archives() {
    const FIRST: &str = "hostlet.local/first:1";
    const SECOND: &str = "hostlet.local/second:1";
    let host = RealHost::start().await.unwrap();
    host.write_archive("first.tar", FIRST, ArchiveForm::Oci).unwrap();
    fs::write(host.archives().join("broken.tar"), "no archive").unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let imported = wait_for("the archive in the log", SOON, async || {
        let log = daemon.log();
        let is_logged = log.contains(FIRST) && log.contains("broken.tar");
        Ok(if is_logged { Look::Done(()) } else { Look::NotYet(log) })
    });
    imported.await.unwrap();
    host.collect_garbage().unwrap();

    host.write_manifest("first.json", &preloaded("first", FIRST)).unwrap();
    let pod = wait_until_ready(&daemon, "first").await.unwrap();
    let status = &statuses(&pod)[0];
    assert_eq!(status.image, FIRST);
    assert!(status.image_id.starts_with("hostlet.local/first@sha256:"), "{status:?}");

    // The pod is created before its image exists.
    host.write_manifest("second.json", &preloaded("second", SECOND)).unwrap();
    let waits = |pod: &_| {
        let waiting = statuses(pod).iter().filter_map(|status| status.state.as_ref()?.waiting.as_ref());
        waiting.filter_map(|waiting| waiting.reason.as_deref()).any(|reason| reason == "ErrImageNeverPull")
    };
    wait_for_pod(&daemon, "second", SOON, waits).await.unwrap();
    host.write_archive("second.tar.gz", SECOND, ArchiveForm::Docker).unwrap();
    wait_for_pod(&daemon, "second", LATER, is_ready).await.unwrap();

    daemon.stop().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    wait_until_ready(&daemon, "first").await.unwrap();
    // Meanwhile the new daemon checks the archives.
    let released = wait_for("no lease of ours", SOON, async || {
        let leases = host.ctr(&["leases", "ls", "-q"])?;
        Ok(if leases.contains("hostlet") { Look::NotYet(leases) } else { Look::Done(()) })
    });
    released.await.unwrap();
}

#[tokio::test]
async fn zstd_layers_are_supported_and_unusable_archives_are_shown() {
    const ZSTD: &str = "hostlet.local/zstd:1";
    const ARCHIVE: &[u8] = b"\x28\xb5\x2f\xfd a whole archive";
    let host = RealHost::start().await.unwrap();
    host.write_archive("layer.tar", ZSTD, ArchiveForm::OciZstd).unwrap();
    fs::write(host.archives().join("whole.tar.zst"), ARCHIVE).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("zstd.json", &preloaded("zstd", ZSTD)).unwrap();
    wait_for_pod(&daemon, "zstd", LATER, is_ready).await.unwrap();

    host.write_manifest("whole.json", &preloaded("whole", "hostlet.local/whole:1")).unwrap();
    let problem = "whole.tar.zst is compressed with zstd; unpack it, or compress it with gzip";
    for args in [&["images"][..], &["pods"], &["explain", "whole"]] {
        let what = format!("the problem in hostlet {args:?}");
        let shown = wait_for(&what, SOON, async || {
            let output = daemon.command(args).output()?;
            let shown = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            Ok(if shown.contains(problem) { Look::Done(()) } else { Look::NotYet(shown) })
        });
        shown.await.unwrap();
    }
}

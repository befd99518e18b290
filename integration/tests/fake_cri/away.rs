//! Pods on a filesystem whose server is unreachable: they wait and say why, and other pods are not affected.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;

use crate::support::{
    LATER, manifest_with, wait_for_log, wait_for_status, wait_until_gone, wait_until_ready, write_pods,
};

/// A filesystem that does not respond: its server, which is this process, reads no request. Needs FUSE in the kernel.
struct Away {
    point: PathBuf,
    server: Option<File>,
}

impl Away {
    fn mount(point: PathBuf) -> Result<Self> {
        fs::create_dir(&point)?;
        let server = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let server = server.context("opening /dev/fuse; load the kernel's module `fuse`")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        mount(Some("away"), &point, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
        Ok(Self { point, server: Some(server) })
    }

    /// Releases the waiting threads. Below the mount is a directory with these entries.
    fn is_replaced(&mut self, directories: &[&str]) -> Result<()> {
        self.unmount()?;
        directories.iter().try_for_each(|name| fs::create_dir(self.point.join(name)))?;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        // Without a server, the kernel fails all pending requests.
        if self.server.take().is_some() {
            umount2(&self.point, MntFlags::MNT_DETACH)?;
        }
        Ok(())
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

fn on(host: &FakeHost, name: &str, path: &Path, kind: &str) -> Result<()> {
    let volumes = json!([{"name": "v", "hostPath": {"path": path, "type": kind}}]);
    let containers = json!([{"name": "main", "image": "busybox:1"}]);
    let manifest = manifest_with(name, json!({"containers": containers, "volumes": volumes}));
    host.write_manifest(&format!("{name}.json"), &manifest)
}

/// The number of the daemon's threads that work on paths of pods.
fn threads(daemon: &Daemon) -> Result<usize> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid()))?;
    let names = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    Ok(names.filter(|name| name.trim() == "pod-paths").count())
}

#[tokio::test]
async fn only_pods_on_an_unreachable_server_wait() {
    let host = FakeHost::start().unwrap();
    let mut away = Away::mount(host.directory().join("away")).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    // More than there are threads for file work.
    let names: Vec<String> = (0..12).map(|pod| format!("lost{pod:02}")).collect();
    let lost: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &lost {
        on(&host, name, &away.point.join(name), "Directory").unwrap();
    }
    for name in &lost {
        wait_for_log(&daemon, &format!("{} does not respond", away.point.join(name).display()))
            .await
            .unwrap();
        wait_for_status(&daemon, name, &["ContainerCreating"]).await.unwrap();
    }

    // Others start and stop, also those with an existing path of the host.
    on(&host, "here", &host.directory().join("here"), "DirectoryOrCreate").unwrap();
    write_pods(&host, &["plain"]).unwrap();
    wait_until_ready(&daemon, &["here", "plain"]).await.unwrap();
    assert!(host.directory().join("here").is_dir());
    for name in ["here", "plain"] {
        host.remove_manifest(&format!("{name}.json")).unwrap();
        wait_until_gone(&host, name).await.unwrap();
    }
    // However often they were retried.
    assert_eq!(threads(&daemon).unwrap(), 1);

    // A waiting pod can be removed.
    host.remove_manifest("lost00.json").unwrap();
    let gone = wait_for("lost00 is not shown", LATER, async || {
        Ok(daemon.pod("lost00")?.map_or(Look::Done(()), |pod| Look::NotYet(format!("{:?}", pod.status))))
    });
    gone.await.unwrap();

    away.is_replaced(&lost).unwrap();
    wait_until_ready(&daemon, &lost[1..]).await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
}

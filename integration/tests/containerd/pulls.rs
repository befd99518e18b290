//! Pulls from a registry: the progress of a slow one, and credentials of the host and of providers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use anyhow::{Context, Result};
use hostlet_integration::real::{BUSYBOX_IMAGE, Daemon, Manner, RealHost};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::support::{IDLE, LATER, SOON, is_ready, manifest, statuses, wait_for_pod};

fn output_of(daemon: &Daemon, args: &[&str]) -> Result<String> {
    let Output { stdout, stderr, .. } = daemon.command(args).output().context("running hostlet")?;
    Ok(format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

#[tokio::test]
async fn a_pull_in_progress_shows_its_progress() {
    let host = RealHost::start().await.unwrap();
    let registry = host.registry(Manner::Slow).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let image = registry.reference();
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
    // The pod waits for its image once it has a sandbox.
    wait_for("the pull that the pod waits for", SOON, async || {
        let explained = output_of(&daemon, &["explain", "slow"])?;
        let is_told =
            explained.contains("is being pulled for container idle") && explained.contains(progress);
        Ok(if is_told { Look::Done(()) } else { Look::NotYet(explained) })
    })
    .await
    .unwrap();

    registry.go_on();
    wait_for_pod(&daemon, "slow", LATER, is_ready).await.unwrap();
    let pods = output_of(&daemon, &["pods"]).unwrap();
    assert!(!pods.contains("is being pulled"), "{pods}");
}

#[tokio::test]
async fn an_image_arrives_while_an_init_container_runs() {
    let host = RealHost::start().await.unwrap();
    let registry = host.registry(Manner::Slow).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let image = registry.reference();
    let wait = "until [ -e /dir/go ]; do sleep 0.1; done";
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "early", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "volumes": [{"name": "dir", "hostPath": {"path": dir.path(), "type": "Directory"}}],
            "initContainers": [{
                "name": "init",
                "image": BUSYBOX_IMAGE,
                "command": ["sh", "-c", wait],
                "volumeMounts": [{"name": "dir", "mountPath": "/dir"}],
            }],
            "containers": [{"name": "idle", "image": image, "command": ["sh", "-c", IDLE]}],
        },
    });
    host.write_manifest("early.json", &pod.to_string()).unwrap();
    let init_runs = |pod: &Pod| {
        let inits = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_ref());
        inits.is_some_and(|inits| {
            inits.iter().any(|init| init.state.as_ref().is_some_and(|s| s.running.is_some()))
        })
    };
    wait_for_pod(&daemon, "early", SOON, init_runs).await.unwrap();
    let explained = output_of(&daemon, &["explain", "early"]).unwrap();
    let beside = format!("Meanwhile the image {image} is being pulled for container idle.");
    assert!(explained.contains(&beside), "{explained}");

    registry.go_on();
    wait_for("the image", SOON, async || {
        let pods = output_of(&daemon, &["pods"])?;
        Ok(if pods.contains("is being pulled") { Look::NotYet(pods) } else { Look::Done(()) })
    })
    .await
    .unwrap();
    let arrived = host.ctr(&["images", "list", "-q"]).unwrap();
    assert!(arrived.contains(&image), "{arrived}");
    wait_for_pod(&daemon, "early", SOON, init_runs).await.unwrap();
    fs::write(dir.path().join("go"), "").unwrap();
    wait_for_pod(&daemon, "early", SOON, is_ready).await.unwrap();
    // It was requested before the sandbox was there, and only once.
    let timeline = output_of(&daemon, &["timeline", "early"]).unwrap();
    let line =
        |step: &str| timeline.lines().position(|line| line.split_whitespace().any(|word| word == step));
    assert!(line("pull") < line("network"), "{timeline}");
    assert_eq!(timeline.matches(&image).count(), 1, "{timeline}");
}

#[tokio::test]
async fn a_private_image_is_pulled_with_the_hosts_credentials() {
    let host = RealHost::start().await.unwrap();
    let registry = host.registry(Manner::Private("me:se:cret".to_owned())).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let image = registry.reference();
    host.write_manifest(
        "private.json",
        &manifest("private", &[("idle", IDLE)]).replace(BUSYBOX_IMAGE, &image),
    )
    .unwrap();
    let refused = |pod: &Pod| {
        let waiting = statuses(pod).first().and_then(|status| status.state.as_ref()?.waiting.clone());
        // How containerd words the refusal depends on its version.
        waiting.and_then(|waiting| waiting.reason).is_some_and(|reason| reason.contains("ImagePull"))
    };
    wait_for_pod(&daemon, "private", SOON, refused).await.unwrap();

    // The next attempt reads the file.
    let auths = json!({"auths": {registry.host(): {"username": "me", "password": "se:cret"}}});
    fs::write(host.kubelet_root().join("config.json"), auths.to_string()).unwrap();
    wait_for_pod(&daemon, "private", SOON, is_ready).await.unwrap();
    let explained = output_of(&daemon, &["explain", "private"]).unwrap();
    let log = output_of(&daemon, &["events"]).unwrap();
    assert!(!explained.contains("cret") && !log.contains("cret"), "{explained}{log}");
}

#[tokio::test]
async fn a_private_image_is_pulled_with_the_credentials_of_a_provider() {
    let host = RealHost::start().await.unwrap();
    let registry = host.registry(Manner::Private("me:se:cret".to_owned())).unwrap();
    let bin_dir = host.kubelet_root().join("providers");
    fs::create_dir_all(&bin_dir).unwrap();
    let protocol = "credentialprovider.kubelet.k8s.io/v1";
    let response = json!({
        "apiVersion": protocol, "kind": "CredentialProviderResponse", "cacheKeyType": "Registry",
        "auth": {registry.host(): {"username": "me", "password": "se:cret"}},
    });
    let (program, noted) = (bin_dir.join("provider"), bin_dir.join("requests"));
    let script = format!("#!/bin/sh\ncat >> {}\ncat <<'END'\n{response}\nEND\n", noted.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "provider", "matchImages": [registry.host()], "defaultCacheDuration": "1h", "apiVersion": protocol,
        }],
    });
    fs::write(bin_dir.join("config.json"), config.to_string()).unwrap();
    let flags = [
        format!("--image-credential-provider-config={}", bin_dir.join("config.json").display()),
        format!("--image-credential-provider-bin-dir={}", bin_dir.display()),
    ];
    let daemon = host.start_hostlet_with_flags("", &flags).await.unwrap();
    let image = registry.reference();
    host.write_manifest(
        "private.json",
        &manifest("private", &[("idle", IDLE)]).replace(BUSYBOX_IMAGE, &image),
    )
    .unwrap();
    wait_for_pod(&daemon, "private", SOON, is_ready).await.unwrap();
    let requests = fs::read_to_string(&noted).unwrap();
    let expected = json!({
        "apiVersion": protocol, "kind": "CredentialProviderRequest", "image": format!("{}/image", registry.host()),
    });
    let lines: Vec<serde_json::Value> =
        requests.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, [expected]);
}

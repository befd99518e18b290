//! Images that cannot be pulled: the status, the retries, and that other pods do not wait.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::Pull;
use serde_json::json;

use crate::support::{
    LATER, is_ready, manifest_with, wait_for_complaint, wait_for_message, wait_for_status, wait_until_gone,
    wait_until_ready, write_pods,
};

fn write(host: &FakeHost, name: &str, image: &str, policy: &str) -> Result<()> {
    let container = json!({"name": "main", "image": image, "imagePullPolicy": policy});
    let manifest = manifest_with(name, json!({"containers": [container]}));
    host.write_manifest(&format!("{name}.json"), &manifest)
}

fn answer(error: Option<&str>) -> Pull {
    Pull { latency: Duration::ZERO, error: error.map(str::to_owned) }
}

#[tokio::test]
async fn a_failed_pull_is_retried_later() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.runtime().script_pull("registry.local/broken:1", answer(Some("no route to registry.local")));
    write(&host, "broken", "registry.local/broken:1", "Always").unwrap();
    write_pods(&host, &["other"]).unwrap();
    wait_until_ready(&daemon, &["other"]).await.unwrap();

    wait_for_status(&daemon, "broken", &["ErrImagePull"]).await.unwrap();
    wait_for_status(&daemon, "broken", &["ImagePullBackOff"]).await.unwrap();
    let why = |message: &str| message.contains("no route to registry.local");
    let row = wait_for_message(&daemon, "broken", why).await.unwrap();
    assert_eq!(row["READY"], "0/1");

    host.runtime().script_pull("registry.local/broken:1", answer(None));
    daemon.wait_for_pod("broken", LATER, is_ready).await.unwrap();
}

#[tokio::test]
async fn an_images_problem_is_in_the_status() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write(&host, "never", "registry.local/absent:1", "Never").unwrap();
    write(&host, "invalid", "Registry.Local/UPPER:1", "IfNotPresent").unwrap();
    host.runtime().add_image("registry.local/present:1");
    write(&host, "present", "registry.local/present:1", "Never").unwrap();
    wait_until_ready(&daemon, &["present"]).await.unwrap();
    wait_for_status(&daemon, "never", &["ErrImageNeverPull"]).await.unwrap();
    wait_for_status(&daemon, "invalid", &["InvalidImageName"]).await.unwrap();
    assert!(host.runtime().calls_of(Operation::PullImage).is_empty());

    // A manifest with another image is another pod, which does not wait.
    write(&host, "never", "registry.local/present:1", "Never").unwrap();
    daemon.wait_for_pod("never", LATER, is_ready).await.unwrap();
}

#[tokio::test]
async fn a_hanging_pull_blocks_only_its_pod() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let never = Pull { latency: Duration::MAX, error: None };
    for pod in ["slow1", "slow2", "slow3", "slow4"] {
        let image = format!("registry.local/{pod}:1");
        host.runtime().script_pull(&image, never.clone());
        write(&host, pod, &image, "IfNotPresent").unwrap();
    }
    wait_for_status(&daemon, "slow4", &["ContainerCreating"]).await.unwrap();
    // This runtime does not report progress.
    let is_reported = |text: &str| {
        text.matches("is being pulled for default/slow").count() == 4 && !text.contains("arrived")
    };
    wait_for_complaint(&daemon, "four pulls", is_reported).await.unwrap();
    host.runtime().add_image("registry.local/present:1");
    write(&host, "present", "registry.local/present:1", "IfNotPresent").unwrap();
    wait_until_ready(&daemon, &["present"]).await.unwrap();
    // Removing the pods cancels their pulls.
    for pod in ["slow1", "slow2", "slow3", "slow4"] {
        host.remove_manifest(&format!("{pod}.json")).unwrap();
        wait_until_gone(&host, pod).await.unwrap();
    }
}

#[tokio::test]
async fn unused_images_are_shown_and_removed_on_request() {
    let host = FakeHost::start().unwrap();
    let image = |name: &str| format!("registry.local/{name}:1");
    for name in ["used", "unused", "pinned"] {
        host.runtime().add_image(&image(name));
    }
    host.runtime().pin_image(&image("pinned"));
    let daemon = host.start_hostlet("imageMinimumGCAge: 1ms").await.unwrap();
    write(&host, "used", &image("used"), "IfNotPresent").unwrap();
    wait_until_ready(&daemon, &["used"]).await.unwrap();

    let shown = daemon.cli(&["images", "--unused"]).unwrap();
    assert!(shown.contains("registry.local/unused:1") && shown.contains("on request"), "{shown}");
    assert!(shown.contains("never: the runtime has pinned it"), "{shown}");
    assert!(!shown.contains("registry.local/used:1"), "{shown}");
    let shown = daemon.cli(&["images", "prune", "--dry-run"]).unwrap();
    assert!(shown.contains("would remove registry.local/unused:1"), "{shown}");
    assert!(host.runtime().calls_of(Operation::RemoveImage).is_empty());

    let shown = daemon.cli(&["images", "prune"]).unwrap();
    assert!(shown.contains("removed registry.local/unused:1"), "{shown}");
    let present = || -> Vec<String> {
        let images = host.runtime().wire_images().into_iter();
        images.flat_map(|image| image.repo_tags).filter(|name| name.starts_with("registry.local/")).collect()
    };
    assert_eq!(present(), [image("pinned"), image("used")]);

    // Once its pod is gone, nothing uses the other one.
    host.remove_manifest("used.json").unwrap();
    wait_until_gone(&host, "used").await.unwrap();
    wait_for("the removal of the image", LATER, async || {
        let shown = daemon.cli(&["images", "prune"])?;
        Ok(if present() == [image("pinned")] { Look::Done(()) } else { Look::NotYet(shown) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_image_that_a_stock_kubelet_pulled_is_not_for_every_pod() {
    let host = FakeHost::start().unwrap();
    let image = "registry.local/begun:1";
    host.runtime().add_image(image);
    // A pull that was under way when the stock kubelet ended. The file's name has the SHA-256 digest of the image's.
    let pulling = host.directory().join("kubelet/image_manager/pulling");
    let file = "sha256-303c3f95a572a41a6197d6adb8544e04dfa93aa7146f3155b667ec15bb96fccd";
    let intent =
        json!({"kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v1beta1", "image": image});
    fs::create_dir_all(&pulling).unwrap();
    fs::write(pulling.join(file), intent.to_string()).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write(&host, "never", image, "Never").unwrap();
    wait_for_status(&daemon, "never", &["ErrImageNeverPull"]).await.unwrap();
    host.runtime().script_pull(image, answer(None));
    write(&host, "pulls", image, "IfNotPresent").unwrap();
    wait_until_ready(&daemon, &["pulls"]).await.unwrap();
    assert_eq!(host.runtime().calls_of(Operation::PullImage).len(), 1);
    assert!(pulling.join(file).exists(), "it is not hostlet's to change");
    // It needed no credentials.
    daemon.wait_for_pod("never", LATER, is_ready).await.unwrap();
}

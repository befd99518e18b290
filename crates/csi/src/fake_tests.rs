//! Tests of the driver in memory: whoever tests with it relies on what it finds.

use std::path::{Path, PathBuf};

use hostlet_host::testing::FakeMounts;
use tonic::Code;

use crate::fake::{FakeDriver, Method, Outcome};
use crate::{AccessMode, Capability, Form, NodeCapabilities, NodeService, PublishCall, Secrets, StageCall};

fn capability(access_mode: AccessMode) -> Capability {
    let form = Form::Filesystem { fs_type: "xfs".to_owned(), options: Vec::new() };
    Capability { form, access_mode, group: None }
}

fn stage(handle: &str, staging: &Path) -> StageCall {
    StageCall {
        handle: handle.to_owned(),
        publish_context: Default::default(),
        staging: staging.to_owned(),
        capability: capability(AccessMode::ReadWriteOncePod),
        secrets: Secrets::default(),
        context: Default::default(),
        is_migrated: false,
    }
}

fn publish(handle: &str, staging: Option<&Path>, target: &Path) -> PublishCall {
    PublishCall {
        handle: handle.to_owned(),
        publish_context: Default::default(),
        staging: staging.map(Path::to_owned),
        target: target.to_owned(),
        capability: capability(AccessMode::ReadWriteOncePod),
        read_only: false,
        secrets: Secrets::default(),
        context: Default::default(),
        is_migrated: false,
    }
}

fn staging_driver() -> FakeDriver {
    FakeDriver::new(NodeCapabilities { stage: true, ..NodeCapabilities::default() })
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_staged_published_and_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (staging, target) = (dir.path().join("globalmount"), dir.path().join("mount"));
    std::fs::create_dir(&staging).unwrap();
    let mounts = FakeMounts::default();
    let driver = staging_driver().with_mounts(mounts.clone());
    driver.stage(&stage("v", &staging)).await.unwrap();
    for _ in 0..2 {
        driver.publish(&publish("v", Some(&staging), &target)).await.unwrap();
    }
    assert_eq!(mounts.now().at(&target.canonicalize().unwrap()).count(), 1);
    assert_eq!(mounts.now().at(&staging).next().unwrap().filesystem, "xfs");
    for _ in 0..2 {
        driver.unpublish("v", &target).await.unwrap();
        driver.unstage("v", &staging).await.unwrap();
    }
    assert!(!target.exists() && mounts.now().within(dir.path()).next().is_none());
    assert_eq!(driver.violations(), [""; 0]);
    assert_eq!(driver.lines()[..2], ["NodeStageVolume v", "NodePublishVolume v"]);
}

#[tokio::test(start_paused = true)]
async fn outcomes_follow_the_script() {
    let driver = staging_driver();
    let staging = PathBuf::from("/s");
    driver.next(
        Method::Stage,
        [Outcome::Fails(Code::Internal), Outcome::Lost(Code::Unavailable), Outcome::Hangs],
    );
    let call = stage("v", &staging);
    assert_eq!(driver.stage(&call).await.unwrap_err().code, Code::Internal);
    assert!(driver.staged().is_empty());
    assert_eq!(driver.stage(&call).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(driver.staged().len(), 1);
    assert_eq!(driver.stage(&call).await.unwrap_err().code, Code::DeadlineExceeded);
    driver.always(Method::Unstage, Outcome::Hangs);
    let release = async {
        driver.called(Method::Unstage, 1).await;
        assert_eq!(driver.staged().len(), 1);
        driver.release();
    };
    let (unstaged, ()) = tokio::join!(driver.unstage("v", &staging), release);
    unstaged.unwrap();
    assert!(driver.staged().is_empty());
    driver.next(Method::Stage, [Outcome::HangsDone]);
    assert_eq!(driver.stage(&call).await.unwrap_err().code, Code::DeadlineExceeded);
    assert_eq!(driver.staged().len(), 1);
    assert_eq!(driver.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_breaks_the_specification_is_found() {
    let driver = staging_driver();
    let (staging, other) = (Path::new("/s"), Path::new("/other"));
    let found = async |expected: &str| {
        let last = driver.violations().last().cloned().unwrap_or_default();
        assert!(last.contains(expected), "{last} is not {expected}");
    };
    driver.publish(&publish("v", Some(staging), Path::new("/t"))).await.unwrap_err();
    found("not staged").await;
    driver.stage(&stage("v", staging)).await.unwrap();
    driver.stage(&stage("v", other)).await.unwrap_err();
    found("while staged at /s").await;
    driver.publish(&publish("v", None, Path::new("/t"))).await.unwrap_err();
    found("from None").await;
    driver.publish(&publish("v", Some(staging), Path::new("/t"))).await.unwrap();
    driver.publish(&publish("v", Some(staging), Path::new("/t2"))).await.unwrap_err();
    found("of one pod").await;
    driver.unstage("v", staging).await.unwrap_err();
    found("while published at /t").await;
    driver.stats("v", Path::new("/t")).await.unwrap_err();
    found("without GET_VOLUME_STATS").await;
    driver.next(Method::Publish, [Outcome::Hangs]);
    let call = publish("v", Some(staging), Path::new("/t"));
    let second = async {
        driver.called(Method::Publish, 5).await;
        driver.unpublish("v", Path::new("/t")).await.unwrap();
        driver.release();
    };
    let (_, ()) = tokio::join!(driver.publish(&call), second);
    found("during another call").await;
    assert_eq!(driver.violations().len(), 7);
    let ephemeral = format!("csi-{}", "a".repeat(64));
    driver.publish(&publish(&ephemeral, None, Path::new("/e"))).await.unwrap();
    driver.unpublish("unknown", Path::new("/u")).await.unwrap();
    assert_eq!(driver.violations().len(), 7);
}

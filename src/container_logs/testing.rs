//! A pod with one running container on a fake runtime, and its log in a temporary directory.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cri::RuntimeService;
use crate::cri::fake::FakeRuntime;
use crate::cri::wire::{ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata};
use crate::pleg::{Pleg, PlegHandle};
use crate::pod::{AdmittedPod, pod_ref};
use crate::status::{LifecycleSummary, PodStatusEntry, StatusCache};
use crate::types::{CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};

/// The pod `default/web`, with the container `c`.
pub(crate) struct Running {
    pub(crate) dir: TempDir,
    pub(crate) fake: FakeRuntime,
    pub(crate) pleg: PlegHandle,
    pub(crate) status_cache: StatusCache,
    pub(crate) pod: Pod,
    pub(crate) id: ContainerId,
    _tasks: JoinSet<()>,
}

impl Running {
    /// A pod whose log is empty.
    pub(crate) async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("c")).unwrap();
        fs::write(dir.path().join("c/0.log"), "").unwrap();
        let fake = FakeRuntime::new();
        let id = run(&fake, &dir).await;
        let (relister, pleg) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
        let mut tasks = JoinSet::new();
        tasks.spawn(relister.run(CancellationToken::new()));
        let pod = pod(&id);
        pleg.cache().newer_than(&pod_ref(&pod), None).await.unwrap();
        let status_cache = StatusCache::default();
        status_cache.report(PodStatusEntry {
            pod: AdmittedPod::new(pod.clone()),
            status: Arc::new(pod.status.clone().unwrap()),
            terminating_since: None,
            lifecycle: LifecycleSummary::Active,
            has_released: false,
        });
        Self { dir, fake, pleg, status_cache, pod, id, _tasks: tasks }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("c/0.log")
    }

    /// Writes a line as the runtime does: `stdout F text`.
    pub(crate) fn write(&self, line: &str) {
        let mut file = OpenOptions::new().append(true).open(self.log()).unwrap();
        writeln!(file, "2026-01-01T00:00:00Z {line}").unwrap();
    }

    /// The files of the log, by name, with their contents.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.dir.path().join("c")).unwrap().map(|entry| entry.unwrap());
        let file =
            |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        let mut files: Vec<(String, Vec<u8>)> = entries.map(file).collect();
        files.sort();
        files
    }
}

async fn run(fake: &FakeRuntime, dir: &TempDir) -> ContainerId {
    let labels = [
        (POD_NAME_LABEL, "web"),
        (POD_NAMESPACE_LABEL, "default"),
        (POD_UID_LABEL, "uid-1"),
        (CONTAINER_NAME_LABEL, "c"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = PodSandboxMetadata {
        name: "web".to_owned(),
        namespace: "default".to_owned(),
        uid: "uid-1".to_owned(),
        attempt: 0,
    };
    let sandbox_config = PodSandboxConfig {
        metadata: Some(metadata),
        labels: labels[..3].iter().cloned().collect(),
        log_directory: dir.path().display().to_string(),
        ..PodSandboxConfig::default()
    };
    let sandbox = fake.run_sandbox(sandbox_config.clone(), "").await.unwrap();
    fake.add_image("docker.io/library/img:1");
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
        image: Some(ImageSpec { image: "docker.io/library/img:1".to_owned(), ..ImageSpec::default() }),
        labels: labels.into(),
        log_path: "c/0.log".to_owned(),
        ..ContainerConfig::default()
    };
    let id = fake.create_container(&sandbox, config, sandbox_config).await.unwrap();
    fake.start_container(&id).await.unwrap();
    id
}

fn pod(id: &ContainerId) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-1"},
        "spec": {"containers": [{"name": "c"}, {"name": "late"}]},
        "status": {"containerStatuses": [
            {
                "name": "c", "image": "img", "imageID": "img", "ready": true, "restartCount": 0,
                "containerID": format!("containerd://{id}"), "state": {"running": {}},
            },
            {
                "name": "late", "image": "img", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}},
            },
        ]},
    }))
    .unwrap()
}

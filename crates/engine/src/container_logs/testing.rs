//! A pod with one running container on a fake runtime, and its log in a temporary directory.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

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

use hostlet_base::{ContainerId, PodRef};
use hostlet_observe::pleg::{Pleg, PlegHandle};
use hostlet_observe::status::{LifecycleSummary, PodStatusEntry, StatusCache};
use hostlet_pod::AdmittedPod;
use hostlet_pod::testing::run;
use hostlet_runtime::cri::fake::FakeRuntime;

/// The pod `default/web`, with the container `c`.
pub struct Running {
    pub dir: TempDir,
    pub fake: FakeRuntime,
    pub pleg: PlegHandle,
    pub status_cache: StatusCache,
    pub pod: Pod,
    pub id: ContainerId,
    _tasks: JoinSet<()>,
}

impl Running {
    /// A pod whose log is empty.
    pub async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("c")).unwrap();
        fs::write(dir.path().join("c/0.log"), "").unwrap();
        let fake = FakeRuntime::new();
        let reference = PodRef::new("default", "web", "uid-1");
        let id = run(&fake, &reference, Some(dir.path())).await;
        let (relister, pleg) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
        let mut tasks = JoinSet::new();
        tasks.spawn(relister.run(CancellationToken::new()));
        pleg.cache().newer_than(&reference, None).await.unwrap();
        let pod = pod(&id);
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

    pub fn log(&self) -> PathBuf {
        self.dir.path().join("c/0.log")
    }

    /// Writes a line as the runtime does: `stdout F text`.
    pub fn write(&self, line: &str) {
        let mut file = OpenOptions::new().append(true).open(self.log()).unwrap();
        writeln!(file, "2026-01-01T00:00:00Z {line}").unwrap();
    }

    /// The files of the log, by name, with their contents.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.dir.path().join("c")).unwrap().map(|entry| entry.unwrap());
        let file =
            |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        let mut files: Vec<(String, Vec<u8>)> = entries.map(file).collect();
        files.sort();
        files
    }
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

//! Performs a purge: pod by pod, as many as possible; hostlet's own files last, so that a purge that failed can be repeated.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use hostlet_base::{ContainerId, PodRef, PodUid, error_chain};
use hostlet_engine::cri_config::remove_pod_dir;
use hostlet_engine::housekeeping::{Family, IptablesError, remove_iptables_chains};
use hostlet_host::cgroup::Cgroups;
use hostlet_host::{Mounts, SysError, file_work, pods_dir, remove_tree, unshare_dir};
use hostlet_observe::log::LogLayout;
use hostlet_runtime::cri::{ContainerState, CriError, RuntimeService};
use hostlet_volume::{self as volume, VolumeThreads};

use super::facts::{is_unused, remains};
use super::plan::PurgePlan;

/// Grace period of a container whose own is unknown, in seconds: the API's default.
const GRACE_SECONDS: i64 = 30;

/// What could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PurgeError {
    /// A pod could not be ended.
    #[error("pod {pod} could not be removed from the container runtime")]
    Pod { pod: PodRef, source: CriError },
    /// Every call succeeded, and yet the runtime has something of the pod.
    #[error("the container runtime still has something of pod {0}")]
    StillThere(PodRef),
    /// Something of a pod on the host could not be removed.
    #[error("the {what} of the pod with the UID {uid} could not be removed: {why}")]
    Leftover { what: &'static str, uid: PodUid, why: String },
    /// The logs could not be removed.
    #[error("logs could not be removed: {0}")]
    Logs(String),
    /// The iptables chains could not be removed.
    #[error("the iptables chains could not be removed")]
    Chains(#[from] IptablesError),
    /// A file of hostlet's own could not be removed.
    #[error(transparent)]
    File(#[from] SysError),
    /// The work on the host's files panicked.
    #[error("removing files panicked")]
    Step(#[from] tokio::task::JoinError),
}

/// Performs purges on this host.
pub(crate) struct Purger {
    pub runtime: Arc<dyn RuntimeService>,
    /// The daemon's directory (`--root-dir`).
    pub root_dir: PathBuf,
    /// The layout of container logs.
    pub logs: LogLayout,
    /// Pod cgroups; `None` with `cgroupsPerQOS: false`, or if they cannot be used.
    pub cgroups: Option<Arc<Cgroups>>,
    /// The host's mounts: nothing is removed across one.
    pub mounts: Arc<dyn Mounts>,
    /// The iptables programs of the families.
    pub iptables: Vec<(PathBuf, Family)>,
}

impl Purger {
    /// Performs the plan, and returns what failed. Performed again, it removes the rest.
    pub(crate) async fn perform(&self, plan: &PurgePlan) -> Vec<PurgeError> {
        let ended = join_all(plan.pods.iter().map(async |pod| (pod, self.end(pod).await))).await;
        let mut failed = Vec::new();
        let mut kept = HashSet::new();
        for (pod, result) in ended {
            if let Err(error) = result {
                // It may still use what it has on the host.
                kept.insert(pod.uid.clone());
                failed.push(error);
            }
        }
        let gone: HashSet<PodUid> = plan.uids.iter().filter(|uid| !kept.contains(*uid)).cloned().collect();
        failed.extend(self.clean(gone).await);
        if plan.has_chains {
            for (program, family) in &self.iptables {
                match remove_iptables_chains(program, *family).await {
                    Ok(()) | Err(IptablesError::Missing { .. }) => {}
                    Err(error) => failed.push(error.into()),
                }
            }
        }
        if failed.is_empty() {
            failed.extend(self.remove_own(&plan.files));
        }
        failed
    }

    /// Ends a pod within the grace periods of its containers, and removes what the runtime has of it.
    async fn end(&self, pod: &PodRef) -> Result<(), PurgeError> {
        let failed = |source| PurgeError::Pod { pod: pod.clone(), source };
        let (runtime, uid) = (&self.runtime, Some(&pod.uid));
        let containers = runtime.list_containers(uid).await.map_err(failed)?;
        let stops = containers.iter().map(async |container| {
            match container.state {
                ContainerState::Running | ContainerState::Unknown => {
                    let status = runtime.container_status(&container.id).await;
                    let grace = status.ok().and_then(|status| status.grace_seconds).unwrap_or(GRACE_SECONDS);
                    runtime.stop_container(&container.id, grace).await?;
                }
                ContainerState::Created | ContainerState::Exited => {}
            }
            runtime.remove_container(&container.id).await
        });
        let stopped: Result<(), CriError> = join_all(stops).await.into_iter().collect();
        stopped.map_err(failed)?;
        for sandbox in runtime.list_sandboxes(uid).await.map_err(failed)? {
            runtime.stop_sandbox(&sandbox.id).await.map_err(failed)?;
            runtime.remove_sandbox(&sandbox.id).await.map_err(failed)?;
        }
        let left = runtime.list_containers(uid).await.map_err(failed)?.len()
            + runtime.list_sandboxes(uid).await.map_err(failed)?.len();
        if left == 0 { Ok(()) } else { Err(PurgeError::StillThere(pod.clone())) }
    }

    /// Removes volumes, directories, logs and cgroups of these pods.
    async fn clean(&self, gone: HashSet<PodUid>) -> Vec<PurgeError> {
        let leftover = |what, uid: &PodUid, why| PurgeError::Leftover { what, uid: uid.clone(), why };
        let (mut failed, mut kept) = (Vec::new(), HashSet::new());
        let threads = VolumeThreads::default();
        for uid in &gone {
            if let Err(error) = volume::tear_down(&self.root_dir, uid, &self.mounts, &threads).await {
                failed.push(leftover("volumes", uid, error_chain(&error)));
                kept.insert(uid.clone());
            }
        }
        let listed = self.runtime.list_containers(None).await.unwrap_or_default();
        let running: HashSet<ContainerId> = listed.into_iter().map(|container| container.id).collect();
        let (root, logs) = (self.root_dir.clone(), self.logs.clone());
        let (cgroups, mounts) = (self.cgroups.clone(), self.mounts.clone());
        let work = move || {
            for uid in &gone {
                // What is in its directory is still in use.
                let removed = if kept.contains(uid) { Ok(()) } else { remove_pod_dir(&root, uid, &*mounts) };
                if let Err(error) = removed {
                    failed.push(leftover("directory", uid, error_chain(&error)));
                }
                if let Some(Err(error)) = cgroups.as_ref().map(|cgroups| cgroups.remove_pod(uid)) {
                    failed.push(leftover("cgroup", uid, error_chain(&error)));
                }
            }
            if !gone.is_empty() {
                let errors = logs.remove_pods(&gone).failed.into_iter();
                let errors =
                    errors.chain(logs.remove_dangling_links(&running, |uid| gone.contains(uid)).failed);
                failed.extend(errors.map(|error| PurgeError::Logs(error_chain(&error))));
            }
            failed
        };
        file_work(work).await.unwrap_or_else(|error| vec![PurgeError::Step(error)])
    }

    fn remove_own(&self, files: &[PathBuf]) -> Vec<PurgeError> {
        let mut failed: Vec<_> =
            files.iter().filter_map(|file| remove_tree(file).err()).map(PurgeError::File).collect();
        let _ = fs::remove_dir(pods_dir(&self.root_dir));
        let left = remains(&self.root_dir);
        // hostlet created them if nothing else is in them.
        if left.iter().all(|path| is_unused(&self.root_dir, path)) {
            for dir in &left {
                let _ = fs::remove_dir(dir);
            }
            failed.extend(unshare_dir(&self.root_dir, &*self.mounts).err().map(PurgeError::File));
            let _ = fs::remove_dir(&self.root_dir);
        }
        failed
    }
}

impl Purger {
    /// What the purge left in the root directory.
    pub(crate) fn remains(&self) -> Vec<PathBuf> {
        remains(&self.root_dir)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use hostlet_engine::ownership::runtime_pods;
    use hostlet_host::testing::in_mount_namespace;
    use hostlet_host::{KernelMounts, share_dir};
    use hostlet_pod as pod;
    use hostlet_runtime::cri::Operation;
    use hostlet_runtime::cri::fake::{FakeRuntime, Fault, Rule};

    async fn run(fake: &FakeRuntime, name: &str) -> PodRef {
        let pod = PodRef::new("default", name, &format!("uid-of-{name}"));
        pod::testing::run(fake, &pod, None).await;
        pod
    }

    fn purger(fake: &FakeRuntime, root: &Path) -> Purger {
        Purger {
            runtime: Arc::new(fake.clone()),
            root_dir: root.join("kubelet"),
            logs: LogLayout { pod_logs_dir: root.join("logs"), containers_dir: root.join("links") },
            cgroups: None,
            mounts: Arc::new(KernelMounts { mountinfo: "/proc/self/mountinfo".into() }),
            iptables: Vec::new(),
        }
    }

    #[tokio::test]
    async fn own_pods_and_files_are_removed_and_nothing_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let fake = FakeRuntime::new();
        let (ours, theirs) = (run(&fake, "ours").await, run(&fake, "theirs").await);
        for path in [
            "kubelet/hostlet",
            "kubelet/pki",
            "kubelet/pods/uid-of-ours/volumes",
            "kubelet/pods/uid-of-theirs",
        ] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::create_dir_all(at("logs/default_ours_uid-of-ours/c")).unwrap();
        fs::create_dir_all(at("logs/default_theirs_uid-of-theirs/c")).unwrap();
        fs::write(at("kubelet/hostlet/store.redb"), "").unwrap();
        fs::write(at("kubelet/config.yaml"), "").unwrap();
        let plan = PurgePlan {
            pods: vec![ours.clone()],
            uids: vec![ours.uid.clone(), "long-gone".into()],
            files: vec![at("kubelet/hostlet"), at("kubelet/hostlet-claim.json")],
            has_chains: false,
            foreign: vec![theirs.clone()],
            other_kubelets: Vec::new(),
        };
        let purger = purger(&fake, dir.path());
        for _ in 0..2 {
            let failed = purger.perform(&plan).await;
            assert!(failed.is_empty(), "{failed:?}");
            assert_eq!(runtime_pods(&fake).await.unwrap(), BTreeSet::from([theirs.clone()]));
            let left = [at("kubelet/config.yaml"), at("kubelet/pki"), at("kubelet/pods")];
            assert_eq!(purger.remains(), left);
            assert!(at("kubelet/pods/uid-of-theirs").exists() && !at("kubelet/pods/uid-of-ours").exists());
            assert!(at("logs/default_theirs_uid-of-theirs").exists());
            assert!(!at("logs/default_ours_uid-of-ours").exists());
        }
    }

    #[tokio::test]
    async fn a_root_directory_without_files_of_others_is_removed_with_its_checkpoints() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let purger = purger(&FakeRuntime::new(), dir.path());
        for driver in [true, false] {
            for path in ["kubelet/hostlet", "kubelet/pods", "kubelet/plugins", "kubelet/checkpoints"] {
                fs::create_dir_all(at(path)).unwrap();
            }
            fs::write(at("kubelet/checkpoints/checkpoint-web_default-c-2026-11-25T10:00:00Z.tar"), "")
                .unwrap();
            if driver {
                fs::write(at("kubelet/plugins/driver"), "").unwrap();
            }
            let files = vec![at("kubelet/hostlet"), at("kubelet/checkpoints")];
            let failed = purger.perform(&PurgePlan { files, ..PurgePlan::default() }).await;
            assert!(failed.is_empty(), "{failed:?}");
            let left = if driver { vec![at("kubelet/plugins")] } else { Vec::new() };
            assert_eq!(purger.remains(), left);
            assert_eq!(at("kubelet").exists(), driver);
            let _ = fs::remove_file(at("kubelet/plugins/driver"));
        }
    }

    #[tokio::test]
    async fn what_a_pod_that_cannot_be_ended_uses_stays_and_so_does_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let fake = FakeRuntime::new();
        let (stuck, fine) = (run(&fake, "stuck").await, run(&fake, "fine").await);
        for path in ["kubelet/hostlet", "kubelet/pods/uid-of-stuck", "kubelet/pods/uid-of-fine"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fake.faults().add(Rule::new(Operation::StopContainer, Fault::fail("busy")).pod(&stuck.uid));
        let plan = PurgePlan {
            pods: vec![stuck.clone(), fine.clone()],
            uids: vec![stuck.uid.clone(), fine.uid.clone()],
            files: vec![at("kubelet/hostlet")],
            has_chains: false,
            foreign: Vec::new(),
            other_kubelets: Vec::new(),
        };
        let failed = purger(&fake, dir.path()).perform(&plan).await;
        let texts: Vec<String> = failed.iter().map(|error| error_chain(error)).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("default/stuck") && texts[0].contains("busy"), "{texts:?}");
        assert!(at("kubelet/pods/uid-of-stuck").exists() && !at("kubelet/pods/uid-of-fine").exists());
        assert!(at("kubelet/hostlet").exists(), "the next purge needs the store");
    }

    #[test]
    fn the_daemons_directory_is_no_mount_any_more() {
        in_mount_namespace(|dir, mounts| {
            let root = dir.join("kubelet");
            fs::create_dir_all(root.join("hostlet")).unwrap();
            share_dir(&root, mounts).unwrap();
            let purger = Purger { mounts: Arc::new(mounts.clone()), ..purger(&FakeRuntime::new(), dir) };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let perform = |files| {
                let plan = PurgePlan { files, ..PurgePlan::default() };
                let failed = runtime.block_on(purger.perform(&plan));
                assert!(failed.is_empty(), "{failed:?}");
            };
            fs::write(root.join("config.yaml"), "").unwrap();
            perform(vec![root.join("hostlet")]);
            assert_eq!(mounts.table().unwrap().at(&root).count(), 1, "another kubelet's files are in it");
            fs::remove_file(root.join("config.yaml")).unwrap();
            perform(Vec::new());
            assert!(mounts.table().unwrap().at(&root).next().is_none() && !root.exists());
        });
    }
}

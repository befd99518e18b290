//! Many hollow nodes, on threads of their own in the network of a cluster.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hostlet_host::raise_open_files;
use nix::sched::{CloneFlags, setns};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::node::HollowNode;
use crate::cluster::Cluster;

/// The image of their pods, which all of them have.
pub const IMAGE: &str = "registry.example.com/hollow:1";

/// Connections to the API server and threads, with room to spare.
const OPEN_FILES: u64 = 200_000;

/// Threads that run the nodes.
const THREADS: usize = 2;

/// Running hollow nodes. Dropping it ends them at once, like a power failure.
#[derive(Debug)]
pub struct Fleet {
    runtime: Option<Runtime>,
    root: TempDir,
}

/// The name of a node.
pub fn name(number: u16) -> String {
    format!("hollow-{number}")
}

impl Fleet {
    /// Starts nodes with the numbers from 0, which join the cluster.
    pub fn start(cluster: &Cluster, count: u16) -> Result<Self> {
        raise_open_files(OPEN_FILES).context("raising the limit of open files")?;
        let kubeconfigs = cluster.hollow_kubeconfigs(count)?;
        let root = tempfile::tempdir().context("a directory for hollow nodes")?;
        let runtime = executor(&cluster.netns_path())?;
        // It ends the nodes that were started if another one fails.
        let fleet = Self { runtime: Some(runtime), root };
        fleet.run(kubeconfigs)?;
        Ok(fleet)
    }

    fn run(&self, kubeconfigs: Vec<PathBuf>) -> Result<()> {
        let runtime = self.runtime.as_ref().context("it was stopped")?;
        let cancel = CancellationToken::new();
        for (number, kubeconfig) in (0..).zip(kubeconfigs) {
            let dir = self.root.path().join(name(number));
            let node = HollowNode::new(number, name(number), dir, kubeconfig)?;
            // Some parts need an executor when they are made.
            let _inside = runtime.enter();
            for task in node.tasks(&cancel)? {
                runtime.spawn(task);
            }
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An executor whose threads are in a network namespace: a socket belongs to its thread's namespace at creation.
fn executor(netns: &Path) -> Result<Runtime> {
    let file = File::open(netns).with_context(|| format!("opening {}", netns.display()))?;
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("hollow")
        .on_thread_start(move || {
            // A node in another network reaches nothing, which its scenario reports.
            let _ = setns(&file, CloneFlags::CLONE_NEWNET);
        })
        .enable_all()
        .build()
        .context("an executor for hollow nodes")
}

/// A kubeconfig that refers to files.
fn kubeconfig(server: &str, pki: &Path, node: &str) -> String {
    let pki = pki.display();
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: cluster, cluster: {{server: '{server}', certificate-authority: {pki}/ca.crt}}}}]
users: [{{name: node, user: {{client-certificate: {pki}/{node}.crt, client-key: {pki}/hollow.key}}}}]
contexts: [{{name: node, context: {{cluster: cluster, user: node}}}}]
current-context: node
"
    )
}

/// Writes a kubeconfig for each node into `dir`.
pub(crate) fn write_kubeconfigs(dir: &Path, server: &str, pki: &Path, count: u16) -> Result<Vec<PathBuf>> {
    (0..count)
        .map(|number| {
            let path = dir.join(format!("{}.conf", name(number)));
            fs::write(&path, kubeconfig(server, pki, &name(number)))
                .with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        })
        .collect()
}

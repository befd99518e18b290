//! Everything a host holds for pods, wherever it is kept, and who it belongs to: so that a test can say that nothing was
//! left behind.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_cri::v1::{ContainerState, PodSandboxState};

use super::cri::Cri;
use super::host::{Dirs, RealHost};
use crate::shell::{lib, run};

/// Length of the ids containerd gives.
const ID: usize = 64;
/// How deep in its directories containerd has one per sandbox or container.
const DEPTH: usize = 3;

/// What kind of thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Container,
    Snapshot,
    Directory,
    LogLink,
    Task,
    Shim,
    Mount,
    Netns,
    Lease,
    CniResult,
    NatRule,
    Cgroup,
    PodDirectory,
    LogDirectory,
}

/// What keeps a thing.
enum Keeper {
    /// A sandbox or container that the runtime lists, dead or alive.
    Listed,
    /// A sandbox that is ready or a container that runs.
    Alive,
    /// A pod that has such a sandbox, and the sandbox or container in a cgroup of its own.
    AliveInPod,
    /// A pod that is wanted.
    Pod,
}

impl Kind {
    fn keeper(self) -> Keeper {
        match self {
            Self::Container | Self::Snapshot | Self::Directory | Self::LogLink => Keeper::Listed,
            Self::Task
            | Self::Shim
            | Self::Mount
            | Self::Netns
            | Self::Lease
            | Self::CniResult
            | Self::NatRule => Keeper::Alive,
            Self::Cgroup => Keeper::AliveInPod,
            Self::PodDirectory | Self::LogDirectory => Keeper::Pod,
        }
    }
}

/// One thing. Its name holds the id or UID of what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Belonging {
    kind: Kind,
    name: String,
}

impl fmt::Display for Belonging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

/// Those to whom things may belong.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Sandboxes and containers, by id.
    listed: HashSet<String>,
    /// Those that are ready or run, by id; and the files of their network namespaces.
    alive: HashSet<String>,
    /// UIDs of the pods with a ready sandbox.
    alive_pods: HashSet<String>,
    /// UIDs of the pods that are wanted.
    pods: HashSet<String>,
}

impl Owners {
    /// Asks the runtime; `pods` are the UIDs of those wanted.
    pub(super) async fn ask(cri: &Cri, pods: &HashSet<String>) -> Result<Self> {
        let mut owners = Self { pods: pods.clone(), ..Self::default() };
        for sandbox in cri.sandboxes().await? {
            if sandbox.state == PodSandboxState::SandboxReady as i32 {
                owners.alive.insert(sandbox.id.clone());
                owners.alive.extend(cri.sandbox_netns(&sandbox.id).await?);
                owners.alive_pods.extend(sandbox.metadata.map(|metadata| metadata.uid));
            }
            owners.listed.insert(sandbox.id);
        }
        for container in cri.containers().await? {
            if container.state == ContainerState::ContainerRunning as i32 {
                owners.alive.insert(container.id.clone());
            }
            owners.listed.insert(container.id);
        }
        Ok(owners)
    }

    /// Whether something belongs to one of them.
    pub(super) fn own(&self, thing: &Belonging) -> bool {
        let names = |ids: &HashSet<String>| ids.iter().any(|id| thing.name.contains(id.as_str()));
        match thing.kind.keeper() {
            Keeper::Listed => names(&self.listed),
            Keeper::Alive => names(&self.alive),
            Keeper::AliveInPod => {
                let is_pods = thing.name.rsplit('/').next().is_some_and(|last| last.starts_with("pod"));
                names(&self.alive_pods) && (is_pods || names(&self.alive))
            }
            Keeper::Pod => names(&self.pods),
        }
    }
}

/// Everything of pods on a host.
pub(super) fn belongings(host: &RealHost, dirs: &Dirs) -> Result<BTreeSet<Belonging>> {
    let mut found = BTreeSet::new();
    let mut add =
        |kind, names: Vec<String>| found.extend(names.into_iter().map(|name| Belonging { kind, name }));
    add(Kind::Container, words(&host.ctr(&["containers", "ls", "-q"])?));
    add(Kind::Task, words(&host.ctr(&["tasks", "ls", "-q"])?));
    let snapshots = host.ctr(&["snapshots", "ls"])?;
    // The layers of images are committed ones.
    let active = snapshots.lines().filter(|line| !line.ends_with("Committed") && line.contains("Active"));
    add(Kind::Snapshot, active.map(str::to_owned).collect());
    let mut directories = Vec::new();
    for top in [dirs.containerd_root(), dirs.containerd_state()] {
        with_ids(&top, DEPTH, &mut directories)?;
    }
    add(Kind::Directory, directories);
    let links = entries(Path::new("/var/log/containers"))?.into_iter();
    let ours = links.filter(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(host.logs())));
    add(Kind::LogLink, ours.map(text).collect());
    let socket = dirs.containerd_socket();
    let shims = lib("pids_of", ["containerd-shim-runc-v2".as_ref(), socket.as_os_str()])?;
    add(Kind::Shim, words(&shims).iter().map(|pid| command_line(pid)).collect());
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let ours =
        points.filter(|point| [&dirs.state, &dirs.run].iter().any(|dir| Path::new(point).starts_with(dir)));
    add(Kind::Mount, ours.map(str::to_owned).collect());
    add(Kind::Netns, paths(&dirs.containerd_state().join("netns"))?);
    for lease in entries(&dirs.addresses().join(&dirs.id))? {
        let holder = fs::read_to_string(&lease).with_context(|| format!("reading {}", lease.display()))?;
        // The file of the last address and the lock hold no lease.
        if lease.file_name().is_some_and(|name| name.to_string_lossy().parse::<std::net::IpAddr>().is_ok()) {
            add(Kind::Lease, vec![format!("{} of {}", lease.display(), holder.replace("\r\n", " "))]);
        }
    }
    let results = paths(Path::new("/var/lib/cni/results"))?;
    add(
        Kind::CniResult,
        results.into_iter().filter(|path| path.contains(&format!("/{}-", dirs.id))).collect(),
    );
    let rules = run(host.command("iptables").args(["-w", "-t", "nat", "-S"]))?;
    let ours = rules.lines().filter(|rule| rule.contains(" id: "));
    add(Kind::NatRule, ours.map(str::to_owned).collect());
    for top in lib("cgroup_dirs", [&dirs.id])?.lines() {
        let mut cgroups = Vec::new();
        pod_cgroups(Path::new(top), false, &mut cgroups);
        add(Kind::Cgroup, cgroups);
    }
    add(Kind::PodDirectory, paths(&dirs.state.join("kubelet/pods"))?);
    add(Kind::LogDirectory, paths(&host.logs())?);
    Ok(found)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// What is in a directory; nothing if there is none.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read
            .with_context(|| format!("reading {}", dir.display()))?
            .flatten()
            .map(|e| e.path())
            .collect()),
    }
}

fn paths(dir: &Path) -> Result<Vec<String>> {
    Ok(entries(dir)?.into_iter().map(text).collect())
}

fn command_line(pid: &str) -> String {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&arguments).replace('\0', " "))
}

/// The directories below `dir` that are named by an id.
fn with_ids(dir: &Path, depth: usize, found: &mut Vec<String>) -> Result<()> {
    for entry in entries(dir)? {
        if !entry.is_dir() {
            continue;
        }
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if name.len() == ID && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            found.push(text(entry));
        } else if depth > 1 {
            with_ids(&entry, depth - 1, found)?;
        }
    }
    Ok(())
}

/// The cgroups of pods and those in them. One that goes meanwhile is not there.
fn pod_cgroups(dir: &Path, in_pod: bool, found: &mut Vec<String>) {
    for entry in entries(dir).unwrap_or_default().into_iter().filter(|entry| entry.is_dir()) {
        let is_pod = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pod"));
        pod_cgroups(&entry, in_pod || is_pod, found);
        if in_pod || is_pod {
            found.push(text(entry));
        }
    }
}

//! Finds everything that a host holds for pods and its owner, so that tests can check that nothing is left behind.
//!
//! Some leftovers are excluded, because only the killed program could know them, and nothing runs in them:
//!
//! - NAT rules: the plugin `bridge`, killed between the removal of an interface and its rules, does not find them again;
//! - a shim without a started container, its bundle, and runc's state: containerd, killed while it starts or stops a shim,
//!   loses it, or keeps it without a name known to the CRI;
//! - a network namespace in which even loopback is down: containerd, killed before it stored the namespace, loses it. The
//!   first plugin, `loopback`, runs later;
//! - a snapshot without a container: containerd, killed while it creates one, keeps it for a day by a lease;
//! - the cgroup of a dead or never started container (`runc init` waits in it): it is removed with its pod's. containerd
//!   1.6, killed while it creates a task, recovers the task in its own way and has no call to remove it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use hostlet_proto::cri::{ContainerState, PodSandboxState};

use super::cri::Cri;
use super::host::{Dirs, RealHost};
use crate::shell::{lib, run};

/// Length of containerd's IDs.
const ID: usize = 64;
/// Depth of the per-container directories in containerd's directories.
const DEPTH: usize = 3;
/// containerd's directory of bundles.
const BUNDLES: &str = "io.containerd.runtime.v2.task";
/// runc's state directory.
const RUNC: &str = "runc";

/// The kind of a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Container,
    Directory,
    LogLink,
    Task,
    Shim,
    Mount,
    /// The shared memory of a sandbox. containerd 2 unmounts it when it stops the sandbox, and of one that was found dead
    /// only when it is removed.
    SharedMemory,
    Netns,
    Lease,
    CniResult,
    Cgroup,
    PodDirectory,
    LogDirectory,
}

/// What justifies an item.
enum StoreWriter {
    /// A sandbox or container that the runtime lists, dead or alive.
    Listed,
    /// A ready sandbox or a running container.
    Alive,
    /// The same, or a pod with such a sandbox.
    AliveOrItsPod,
    /// A pod with such a sandbox, and the sandbox or container in its own cgroup.
    AliveInPod,
    /// A desired pod.
    Pod,
}

impl Kind {
    fn keeper(self) -> StoreWriter {
        match self {
            Self::Container | Self::Directory | Self::SharedMemory => StoreWriter::Listed,
            Self::Task | Self::Shim | Self::Netns | Self::Lease | Self::CniResult => StoreWriter::Alive,
            Self::Mount => StoreWriter::AliveOrItsPod,
            Self::Cgroup => StoreWriter::AliveInPod,
            Self::PodDirectory | Self::LogDirectory | Self::LogLink => StoreWriter::Pod,
        }
    }
}

/// An item. Its name contains the ID or UID of its owner.
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

/// Possible owners.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Sandboxes and containers, by id.
    listed: HashSet<String>,
    /// Ready sandboxes and running containers by ID, and the files of their network namespaces.
    alive: HashSet<String>,
    /// UIDs of the pods with a ready sandbox.
    alive_pods: HashSet<String>,
    /// UIDs of the desired pods.
    pods: HashSet<String>,
}

impl Owners {
    /// Queries the runtime; `pods` are the UIDs of the desired pods.
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

    /// Whether an item belongs to one of them.
    pub(super) fn own(&self, thing: &Belonging) -> bool {
        let names = |ids: &HashSet<String>| ids.iter().any(|id| thing.name.contains(id.as_str()));
        match thing.kind.keeper() {
            StoreWriter::Listed => names(&self.listed),
            StoreWriter::Alive => names(&self.alive),
            StoreWriter::AliveOrItsPod => names(&self.alive) || names(&self.alive_pods),
            StoreWriter::AliveInPod => {
                let is_pods = thing.name.rsplit('/').next().is_some_and(|last| last.starts_with("pod"));
                names(&self.alive_pods) && (is_pods || names(&self.alive))
            }
            StoreWriter::Pod => names(&self.pods),
        }
    }
}

/// All items of pods on a host.
pub(super) fn belongings(host: &RealHost, dirs: &Dirs) -> Result<BTreeSet<Belonging>> {
    let mut found = BTreeSet::new();
    let mut add =
        |kind, names: Vec<String>| found.extend(names.into_iter().map(|name| Belonging { kind, name }));
    add(Kind::Container, words(&host.ctr(&["containers", "ls", "-q"])?));
    add(Kind::Task, words(&host.ctr(&["tasks", "ls", "-q"])?));
    let mut directories = Vec::new();
    for top in [dirs.containerd_root(), dirs.containerd_state()] {
        with_ids(&top, DEPTH, &mut directories)?;
    }
    add(Kind::Directory, directories);
    // The link's target has the pod.
    let links = entries(Path::new("/var/log/containers"))?.into_iter();
    let targets = links.filter_map(|link| fs::read_link(link).ok());
    add(Kind::LogLink, targets.filter(|to| to.starts_with(host.logs())).map(text).collect());
    let socket = dirs.containerd_socket();
    let shims = words(&lib("pids_of", ["containerd-shim-runc-v2".as_ref(), socket.as_os_str()])?);
    add(Kind::Shim, shims_at_work(&shims));
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    // The daemon's directory is a shared mount for as long as the host runs.
    let points = points.filter(|point| Path::new(point) != host.kubelet_root());
    let points = points.filter(|point| !host.disks().iter().any(|disk| disk.at() == Path::new(point)));
    let ours =
        points.filter(|point| [&dirs.state, &dirs.run].iter().any(|dir| Path::new(point).starts_with(dir)));
    let (namespaces, mounts): (Vec<&str>, Vec<&str>) = ours.partition(|point| point.contains("/netns/"));
    let (memory, mounts): (Vec<&str>, Vec<&str>) = mounts.into_iter().partition(|point| {
        let mut names = point.rsplit('/');
        names.next() == Some("shm") && names.nth(1) == Some("sandboxes")
    });
    add(Kind::SharedMemory, memory.into_iter().map(str::to_owned).collect());
    add(Kind::Mount, mounts.into_iter().map(str::to_owned).collect());
    let used = namespaces.into_iter().filter(|namespace| has_network(namespace));
    add(Kind::Netns, used.map(str::to_owned).collect());
    for lease in entries(&dirs.addresses().join(&dirs.id))? {
        let holder = fs::read_to_string(&lease).with_context(|| format!("reading {}", lease.display()))?;
        // The files of the last address and of the lock are no leases.
        if lease.file_name().is_some_and(|name| name.to_string_lossy().parse::<std::net::IpAddr>().is_ok()) {
            add(Kind::Lease, vec![format!("{} of {}", lease.display(), holder.replace("\r\n", " "))]);
        }
    }
    let results = paths(Path::new("/var/lib/cni/results"))?;
    add(
        Kind::CniResult,
        results.into_iter().filter(|path| path.contains(&format!("/{}-", dirs.id))).collect(),
    );
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

/// The entries of a directory; empty if it does not exist.
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

/// Shims with containers or with programs that create them.
fn shims_at_work(pids: &[String]) -> Vec<String> {
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    let mut at_work: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for stat in all.filter_map(|process| process.stat().ok()).filter(|stat| stat.state != 'Z') {
        let (child, parent) = (command_line(&stat.pid.to_string()), stat.ppid.to_string());
        if pids.contains(&parent) && !never_began(&child) {
            at_work.entry(parent).or_default().push(child);
        }
    }
    let named = |(pid, children): (String, Vec<String>)| {
        format!("{} with {}", command_line(&pid), children.join(", "))
    };
    at_work.into_iter().map(named).collect()
}

/// Whether a network plugin has configured a network namespace.
fn has_network(namespace: &str) -> bool {
    let up = run(Command::new("nsenter")
        .arg(format!("--net={namespace}"))
        .args(["ip", "-o", "link", "show", "up"]));
    // One that cannot be entered any more is reported.
    up.map_or(true, |links| !links.is_empty())
}

/// The directories below `dir` named by an ID.
fn with_ids(dir: &Path, depth: usize, found: &mut Vec<String>) -> Result<()> {
    for entry in entries(dir)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if !entry.is_dir() || name == BUNDLES || name == RUNC {
            continue;
        }
        if name.len() == ID && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            found.push(text(entry));
        } else if depth > 1 {
            with_ids(&entry, depth - 1, found)?;
        }
    }
    Ok(())
}

/// Whether a container's process runs in a cgroup.
fn has_begun(cgroup: &Path) -> bool {
    let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    pids.lines().any(|pid| !never_began(&command_line(pid)))
}

/// Whether a process is `runc init`, waiting to start.
fn never_began(command_line: &str) -> bool {
    command_line.ends_with("runc init ")
}

/// The cgroups of pods, and those inside with processes. Skips cgroups that are removed meanwhile.
fn pod_cgroups(dir: &Path, in_pod: bool, found: &mut Vec<String>) {
    for entry in entries(dir).unwrap_or_default().into_iter().filter(|entry| entry.is_dir()) {
        let is_pod = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pod"));
        pod_cgroups(&entry, in_pod || is_pod, found);
        if is_pod || in_pod && has_begun(&entry) {
            found.push(text(entry));
        }
    }
}

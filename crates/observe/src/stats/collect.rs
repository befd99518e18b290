//! Measures everything on the node once: the cgroups of the host, of the daemon, of the runtime and of pods, and their networks.
//! Blocking, but all of these files are in memory. Two threads share the pods: most of the time is the kernel's, which computes what is
//! in each file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use nix::sys::stat::{major, minor};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::accounting::{Accounting, Reader};
use super::node_usage::{
    ContainerUsage, NodeFilesystem, NodeUsage, PodUsage, SandboxUsage, TaskCount, UnitUsage,
};
use super::parse;
use super::rates::Rates;
use super::settings::SystemPaths;
use super::usage::{BlockDevice, Detail, NetworkDevice};
use crate::pleg::PodStatus;
use hostlet_base::PodUid;
use hostlet_host::cgroup::{CgroupError, Cgroups, own_cgroup};
use hostlet_host::filesystem_usage;
use hostlet_runtime::cri::{ContainerState, ContainerStatus};

/// The path of the cgroup of the whole host.
const ROOT: &str = "/";

/// What is measured, and facts about the host that do not change.
pub(super) struct Host {
    pub(super) cgroups: Arc<Cgroups>,
    pub(super) accounting: Accounting,
    pub(super) proc: PathBuf,
    pub(super) root_dir: PathBuf,
    pub(super) memory: u64,
    pub(super) swap: u64,
    pub(super) booted_at: Timestamp,
    pub(super) system: SystemPaths,
}

/// Number of pods from which on a second thread is worth its start.
const MANY_PODS: usize = 16;

pub(super) struct Measurement<'a> {
    host: &'a Host,
    rates: Mutex<&'a mut Rates>,
    detail: Detail,
    now: Timestamp,
}

/// One thread's part of it.
struct Part<'p, 'm> {
    of: &'p Measurement<'m>,
    reader: Reader<'p>,
}

/// What pods are looked up in.
struct PodCgroups<'a> {
    /// The path of each pod's cgroup.
    paths: &'a HashMap<PodUid, String>,
    /// If pods have none: the cgroups of all containers, by their IDs.
    outside: &'a BTreeMap<String, String>,
    /// The devices of the host, for pods in its network.
    network: &'a [NetworkDevice],
}

impl<'a> Measurement<'a> {
    /// Prepares a measurement that begins at `now`.
    pub(super) fn new(host: &'a Host, rates: &'a mut Rates, detail: Detail, now: Timestamp) -> Self {
        Self { host, rates: Mutex::new(rates), detail, now }
    }

    /// Measures the host and these pods. Fails only if the cgroups of pods cannot be listed.
    pub(super) fn measure(self, observed: &[Arc<PodStatus>]) -> Result<NodeUsage, CgroupError> {
        let mut part = self.part();
        let mut root =
            part.unit(ROOT).unwrap_or_else(|| UnitUsage { path: ROOT.to_owned(), ..UnitUsage::default() });
        root.usage.at = self.now;
        root.usage.created_at = self.host.booted_at;
        // The root has no limits of its own.
        root.usage.limits.memory = Some(self.host.memory);
        root.usage.limits.swap = Some(self.host.swap);
        let tasks = part.tasks();
        if self.detail == Detail::Node {
            let all_pods = self.host.cgroups.all_pods_path().and_then(|path| part.unit(&path));
            // The rates of other cgroups are kept: the next measurement of them goes on from there.
            return Ok(NodeUsage { root, tasks, all_pods, at: self.now, ..NodeUsage::default() });
        }
        let network = match self.detail {
            Detail::Node | Detail::CpuAndMemory => Vec::new(),
            // The daemon is in the network namespace of the host.
            Detail::Summary | Detail::All => part.network("self/net/dev").unwrap_or_default(),
        };
        let own = part.reader.proc_text("self/cgroup").map(str::to_owned);
        let own = own.and_then(|text| own_cgroup(&text, self.host.cgroups.version()));
        let kubelet = own.and_then(|path| part.unit(&path));
        let mut configured = |path: &Option<String>| path.as_deref().and_then(|path| part.unit(path));
        let SystemPaths { runtime, misc } = &self.host.system;
        let (runtime, misc) = (configured(runtime), configured(misc));
        let all_pods_path = self.host.cgroups.all_pods_path();
        let outside = match all_pods_path {
            Some(_) => BTreeMap::new(),
            None => part.containers_anywhere(),
        };
        let all_pods = all_pods_path.and_then(|path| part.unit(&path));
        let paths: HashMap<PodUid, String> = self.host.cgroups.pod_paths()?.into_iter().collect();
        let cgroups = PodCgroups { paths: &paths, outside: &outside, network: &network };
        let mut pods = self.pods(&mut part, observed, &cgroups);
        pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        let (devices, filesystem) = match self.detail {
            Detail::Node | Detail::CpuAndMemory | Detail::Summary => (BTreeMap::new(), None),
            Detail::All => part.disks(),
        };
        self.rates.lock().finish();
        Ok(NodeUsage {
            at: self.now,
            root,
            network,
            kubelet,
            runtime,
            misc,
            all_pods,
            pods,
            devices,
            tasks,
            filesystem,
        })
    }

    fn part(&self) -> Part<'_, 'a> {
        Part { of: self, reader: Reader::new(&self.host.accounting, &self.host.proc) }
    }

    /// These pods, of which another thread measures half if there are many.
    fn pods(
        &self,
        part: &mut Part<'_, '_>,
        observed: &[Arc<PodStatus>],
        cgroups: &PodCgroups<'_>,
    ) -> Vec<PodUsage> {
        let measure = |part: &mut Part<'_, '_>, pods: &[Arc<PodStatus>]| -> Vec<PodUsage> {
            pods.iter().filter_map(|pod| part.pod(pod, cgroups)).collect()
        };
        if observed.len() < MANY_PODS {
            return measure(part, observed);
        }
        let (own, others) = observed.split_at(observed.len() / 2);
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().name("stats".to_owned());
            let other = other.spawn_scoped(scope, || measure(&mut self.part(), others));
            let mut pods = measure(part, own);
            match other.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(others)) => pods.extend(others),
                // Without a second thread, everything is done by this one.
                Ok(Err(_)) | Err(_) => pods.extend(measure(part, others)),
            }
            pods
        })
    }
}

impl Part<'_, '_> {
    /// A cgroup with its rate.
    fn unit(&mut self, path: &str) -> Option<UnitUsage> {
        let mut usage = self.reader.read(path, self.of.detail, self.of.now)?;
        usage.cpu.rate = self.of.rates.lock().rate(path, usage.cpu.total, Instant::now());
        Some(UnitUsage { path: path.to_owned(), usage })
    }

    /// The cgroups of sandboxes and containers directly in that at `path`, by their IDs. The runtime chooses the names; each ends
    /// with the ID.
    fn containers_in(&self, path: &str) -> BTreeMap<String, String> {
        let names = self.reader.children(path);
        let path = path.trim_end_matches('/');
        names.into_iter().map(|name| (id_in(&name).to_owned(), format!("{path}/{name}"))).collect()
    }

    /// The cgroups of containers if pods have none: in a cgroup of the runtime's choice below the root.
    fn containers_anywhere(&self) -> BTreeMap<String, String> {
        let mut all = self.containers_in(ROOT);
        let below: Vec<_> = all.values().map(|path| self.containers_in(path)).collect();
        all.extend(below.into_iter().flatten());
        all
    }

    /// A pod with its sandbox and containers.
    fn pod(&mut self, observed: &PodStatus, cgroups: &PodCgroups<'_>) -> Option<PodUsage> {
        let newest = observed.sandbox()?;
        let path = cgroups.paths.get(&observed.pod.uid).map(String::as_str);
        let unit = path.and_then(|path| self.unit(path));
        let inside = path.map(|path| self.containers_in(path));
        let units = inside.as_ref().unwrap_or(cgroups.outside);
        let mut sandbox = SandboxUsage { id: newest.id.clone(), created_at: newest.created_at, unit: None };
        match self.of.detail {
            Detail::Node | Detail::CpuAndMemory | Detail::Summary => {}
            Detail::All => sandbox.unit = units.get(newest.id.as_str()).and_then(|path| self.unit(path)),
        }
        let running =
            observed.containers.iter().filter(|container| container.state == ContainerState::Running);
        let mut containers: Vec<ContainerUsage> = running
            .map(|container| {
                let unit = units.get(container.id.as_str()).and_then(|path| self.unit(path));
                container_usage(container, unit)
            })
            .collect();
        containers.sort_by(|a, b| a.name.cmp(&b.name));
        let network = match (self.of.detail, newest.host_network) {
            (Detail::Node | Detail::CpuAndMemory, _) => None,
            (Detail::Summary | Detail::All, true) => Some(cgroups.network.to_vec()),
            (Detail::Summary | Detail::All, false) => {
                // A sandbox need not have a process (CRI-O's `drop_infra_ctr`).
                let mut units = sandbox.unit.iter().chain(containers.iter().flat_map(|it| &it.unit));
                let first = units.find_map(|unit| unit.usage.processes.first);
                first.and_then(|pid| self.network(&format!("{pid}/net/dev")))
            }
        };
        Some(PodUsage { pod: observed.pod.clone(), sandbox, unit, network, containers })
    }

    fn network(&mut self, file: &str) -> Option<Vec<NetworkDevice>> {
        self.reader.proc_text(file).map(parse::network_devices)
    }

    /// The names of block devices, and the filesystem of the daemon's directory.
    fn disks(&mut self) -> (BTreeMap<BlockDevice, String>, Option<NodeFilesystem>) {
        let root_dir = &self.of.host.root_dir;
        let text = self.reader.proc_text("diskstats").unwrap_or_default();
        let mut names = BTreeMap::new();
        let number = device_of(root_dir);
        let (mut device, mut disk) = (String::new(), None);
        for (found, name, activity) in parse::disks(text) {
            if Some(found) == number {
                (device, disk) = (format!("/dev/{name}"), Some(activity));
            }
            names.insert(found, name.to_owned());
        }
        let usage = filesystem_usage(root_dir).ok();
        (names, usage.map(|usage| NodeFilesystem { device, usage, disk }))
    }

    fn tasks(&mut self) -> TaskCount {
        let current = self.reader.proc_text("loadavg").and_then(parse::running_tasks);
        let mut number = |file: &str| self.reader.proc_text(file).and_then(parse::number);
        let limits = [number("sys/kernel/pid_max"), number("sys/kernel/threads-max")];
        TaskCount { current, max: limits.into_iter().flatten().min() }
    }
}

/// The device that the filesystem at `path` is on.
fn device_of(path: &Path) -> Option<BlockDevice> {
    let number = fs::metadata(path).ok()?.dev();
    let part = |part: u64| u32::try_from(part).ok();
    Some(BlockDevice { major: part(major(number))?, minor: part(minor(number))? })
}

fn container_usage(container: &ContainerStatus, unit: Option<UnitUsage>) -> ContainerUsage {
    ContainerUsage {
        name: container.name.clone(),
        id: container.id.clone(),
        image: container.image.clone(),
        created_at: container.created_at,
        started_at: container.started_at.unwrap_or(container.created_at),
        unit,
    }
}

/// The ID of a sandbox or container in the name of its cgroup: with the cgroupfs driver the name itself, or `crio-<id>`; with
/// systemd `cri-containerd-<id>.scope` or `crio-<id>.scope`. CRI-O also has a cgroup of its own helper.
fn id_in(name: &str) -> &str {
    match name.strip_suffix(".scope") {
        Some(unit) if !unit.contains("-conmon-") => unit.rsplit_once('-').map_or(unit, |(_, id)| id),
        Some(_) | None => name.strip_prefix("crio-").unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_names_its_container() {
        assert_eq!(id_in("9be25294"), "9be25294");
        assert_eq!(id_in("cri-containerd-9be25294.scope"), "9be25294");
        assert_eq!(id_in("crio-9be25294.scope"), "9be25294");
        assert_eq!(id_in("crio-9be25294"), "9be25294");
        for helper in ["crio-conmon-9be25294.scope", "crio-conmon-9be25294"] {
            assert_ne!(id_in(helper), "9be25294");
        }
    }
}

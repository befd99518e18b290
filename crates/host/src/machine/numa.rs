//! NUMA nodes, their memory, and where each CPU is, by the rules of cAdvisor, so that they are what a stock kubelet sees. Read-only. A fact
//! that the kernel does not show is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hostlet_base::cpu_list;

/// The lowest level of a cache that is shared by cores.
const SHARED_CACHE: u32 = 3;

/// The place of a CPU that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLocation {
    /// The NUMA node; the socket, if the kernel knows no nodes.
    pub node: u32,
    /// The physical package.
    pub socket: u32,
    /// The lowest CPU of its core that is online.
    pub core: u32,
    /// The number of a last-level cache that only some cores of the node share, else the socket.
    pub cache: u32,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Bytes of memory, huge pages included.
    pub memory: u64,
    /// How many huge pages there are, by their size in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// The distance to each node, in the order of their numbers.
    pub distances: Vec<u64>,
}

/// All CPUs that are online, and all NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaTopology {
    /// The CPUs, by number.
    pub cpus: BTreeMap<u32, CpuLocation>,
    /// The nodes, by number, also those without CPUs.
    pub nodes: BTreeMap<u32, NodeFacts>,
}

impl NumaTopology {
    /// Reads it from sysfs at `sys`.
    pub fn read(sys: &Path) -> Self {
        let cpu_dir = sys.join("devices/system/cpu");
        let online =
            fs::read_to_string(cpu_dir.join("online")).ok().and_then(|text| cpu_list(text.trim()).ok());
        let cpus = numbered(&cpu_dir, "cpu");
        let cpus =
            cpus.into_iter().filter(|(cpu, _)| online.as_ref().is_none_or(|online| online.contains(cpu)));
        let threads: BTreeMap<u32, Thread> =
            cpus.filter_map(|(cpu, path)| Some((cpu, Thread::read(path)?))).collect();
        let node_dirs = numbered(&sys.join("devices/system/node"), "node");
        if node_dirs.is_empty() {
            return Self::of_sockets(&threads);
        }
        let mut topology = Self::default();
        for (node, path) in node_dirs {
            let own: BTreeSet<u32> = numbered(&path, "cpu").into_keys().collect();
            let own = threads.iter().filter(|(cpu, _)| own.contains(cpu)).collect();
            topology.add_cpus(node, &own);
            topology.nodes.insert(node, NodeFacts::read(&path));
        }
        topology
    }

    /// Each socket is a node.
    fn of_sockets(threads: &BTreeMap<u32, Thread>) -> Self {
        let mut topology = Self::default();
        for socket in threads.values().map(|thread| thread.socket).collect::<BTreeSet<u32>>() {
            topology
                .add_cpus(socket, &threads.iter().filter(|(_, thread)| thread.socket == socket).collect());
            topology.nodes.insert(socket, NodeFacts::default());
        }
        topology
    }

    fn add_cpus(&mut self, node: u32, threads: &BTreeMap<&u32, &Thread>) {
        let mut cores: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (cpu, thread) in threads {
            cores.entry((thread.socket, thread.core)).or_default().push(**cpu);
        }
        for ((socket, _), cpus) in &cores {
            let Some(first) = cpus.first() else { continue };
            let of_node = cores.len() * cpus.len();
            let cache = threads.get(first).and_then(|thread| thread.part_cache(of_node)).unwrap_or(*socket);
            let location = CpuLocation { node, socket: *socket, core: *first, cache };
            self.cpus.extend(cpus.iter().map(|cpu| (*cpu, location)));
        }
    }
}

/// A CPU, as the kernel numbers it: cores are numbered anew in each socket.
struct Thread {
    path: PathBuf,
    socket: u32,
    core: u32,
}

impl Thread {
    fn read(path: PathBuf) -> Option<Self> {
        let socket = number(&path.join("topology/physical_package_id"))?;
        let core = number(&path.join("topology/core_id"))?;
        Some(Self { path, socket, core })
    }

    /// The cache that cores share, if it is not that of all CPUs of the node.
    fn part_cache(&self, cpus_of_node: usize) -> Option<u32> {
        let caches = numbered(&self.path.join("cache"), "index").into_values();
        caches
            .filter(|cache| number(&cache.join("level")).is_some_and(|level: u32| level >= SHARED_CACHE))
            .find_map(|cache| {
                let shared = fs::read_to_string(cache.join("shared_cpu_list")).ok()?;
                let shared = cpu_list(shared.trim()).ok()?;
                let id = number(&cache.join("id")).or_else(|| shared.first().copied());
                id.filter(|_| shared.len() != cpus_of_node)
            })
    }
}

impl NodeFacts {
    fn read(path: &Path) -> Self {
        let text = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        let meminfo = text("meminfo");
        let total =
            meminfo.lines().find_map(|line| line.split_once("MemTotal:")?.1.trim().strip_suffix("kB"));
        let kibibytes: u64 = total.and_then(|total| total.trim().parse().ok()).unwrap_or_default();
        let huge = fs::read_dir(path.join("hugepages")).into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name();
            let size: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some((size.checked_mul(1024)?, number(&entry.path().join("nr_hugepages"))?))
        });
        let distances = text("distance").split_whitespace().map(u64::from_str).collect::<Result<_, _>>();
        Self {
            memory: kibibytes.saturating_mul(1024),
            huge_pages: huge.collect(),
            distances: distances.unwrap_or_default(),
        }
    }
}

/// The entries of a directory that are a prefix and a number.
fn numbered(dir: &Path, prefix: &str) -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((number, entry.path()))
    });
    numbered.collect()
}

fn number<T: FromStr>(file: &Path) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[path = "numa_tests.rs"]
mod tests;

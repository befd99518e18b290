//! Reads from sysfs where the CPUs of the host are and what its NUMA nodes have, as upstream's cAdvisor does. Decides nothing. Blocks its
//! thread.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::cpu_list;
use hostlet_resources::{CpuPlace, Machine, NumaNode};

/// Levels above this one may be shared by cores.
const PRIVATE_LEVELS: u32 = 2;

/// Why the machine cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file does not have what the kernel writes to it.
    #[error("{} has {content:?}, which is no number", path.display())]
    NoNumber {
        /// The file.
        path: PathBuf,
        /// What it has.
        content: String,
    },
}

/// The machine below this mount point of sysfs. Only CPUs that are online are part of it. `memory` is that of a machine whose kernel knows
/// no NUMA nodes, in bytes.
pub fn read_machine(sys: &Path, memory: u64) -> Result<Machine, MachineError> {
    let (nodes_dir, cpus_dir) = (sys.join("devices/system/node"), sys.join("devices/system/cpu"));
    let mut machine = Machine::default();
    for (number, directory) in numbered(&nodes_dir, "node") {
        machine.nodes.insert(number, node(&directory)?);
        let cpus = numbered(&directory, "cpu").into_iter().map(|(cpu, _)| cpu);
        machine.cpus.extend(places(&cpus_dir, cpus.collect(), |_| number)?);
    }
    if machine.nodes.is_empty() {
        // Without NUMA, upstream's nodes are the sockets.
        let cpus = numbered(&cpus_dir, "cpu").into_iter().map(|(cpu, _)| cpu);
        machine.cpus = places(&cpus_dir, cpus.collect(), |socket| socket)?;
        let first = machine.cpus.values().map(|place| place.node).min();
        for place in machine.cpus.values() {
            let memory = if Some(place.node) == first { memory } else { 0 };
            let node = || NumaNode { memory, ..NumaNode::default() };
            machine.nodes.entry(place.node).or_insert_with(node);
        }
    }
    Ok(machine)
}

/// A core before its place is known.
#[derive(Default)]
struct Core {
    socket: u32,
    threads: Vec<u32>,
}

/// The places of the CPUs of one node, or of all without NUMA.
fn places(
    directory: &Path,
    cpus: Vec<u32>,
    node: impl Fn(u32) -> u32,
) -> Result<BTreeMap<u32, CpuPlace>, MachineError> {
    let mut cores: BTreeMap<(u32, u32), Core> = BTreeMap::new();
    for cpu in cpus {
        let of_cpu = directory.join(format!("cpu{cpu}"));
        // The first CPU of many machines cannot be taken offline and has no such file.
        if text(&of_cpu.join("online"))?.is_some_and(|online| online == "0") {
            continue;
        }
        let topology = of_cpu.join("topology");
        let (Some(core), Some(socket)) =
            (number(&topology.join("core_id"))?, number(&topology.join("physical_package_id"))?)
        else {
            continue;
        };
        let core = cores.entry((socket, core)).or_default();
        core.socket = socket;
        core.threads.push(cpu);
    }
    let mut places = BTreeMap::new();
    for core in cores.values() {
        let Some(first) = core.threads.iter().min().copied() else { continue };
        let all = cores.len().saturating_mul(core.threads.len());
        let cache = shared_cache(&directory.join(format!("cpu{first}/cache")), all)?.unwrap_or(core.socket);
        let place = CpuPlace { node: node(core.socket), socket: core.socket, core: first, cache };
        places.extend(core.threads.iter().map(|thread| (*thread, place)));
    }
    Ok(places)
}

/// The number of the first cache that some cores of a node share, but not `all` of its CPUs.
fn shared_cache(directory: &Path, all: usize) -> Result<Option<u32>, MachineError> {
    for (_, cache) in numbered(directory, "index") {
        let (level, id) = (number(&cache.join("level"))?, number(&cache.join("id"))?);
        let shared = text(&cache.join("shared_cpu_list"))?.and_then(|list| cpu_list(&list).ok());
        let (Some(level), Some(id), Some(shared)) = (level, id, shared) else { continue };
        if level > PRIVATE_LEVELS && shared.len() != all {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

fn node(directory: &Path) -> Result<NumaNode, MachineError> {
    let mut huge_pages = BTreeMap::new();
    for (kilobytes, pages) in sizes(&directory.join("hugepages")) {
        let count = number(&pages.join("nr_hugepages"))?.unwrap_or_default();
        huge_pages.insert(kilobytes.saturating_mul(1024), u64::from(count));
    }
    let distances = text(&directory.join("distance"))?.unwrap_or_default();
    let distances = distances.split_whitespace().filter_map(|distance| distance.parse().ok()).collect();
    Ok(NumaNode { memory: memory(&directory.join("meminfo"))?, huge_pages, distances })
}

/// Bytes of memory by a node's `meminfo`: `Node 0 MemTotal:  16309972 kB`.
fn memory(path: &Path) -> Result<u64, MachineError> {
    let text = text(path)?.unwrap_or_default();
    let line = text.lines().find(|line| line.contains("MemTotal:")).unwrap_or_default();
    let kilobytes = line.split_whitespace().rev().nth(1).and_then(|amount| amount.parse::<u64>().ok());
    Ok(kilobytes.unwrap_or_default().saturating_mul(1024))
}

/// The directories of huge pages, by their size in kilobytes: `hugepages-2048kB`.
fn sizes(directory: &Path) -> Vec<(u64, PathBuf)> {
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok();
    entries(directory, size)
}

/// The entries of a directory whose name is `prefix` and a number, by that number.
fn numbered(directory: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    entries(directory, |name| name.strip_prefix(prefix)?.parse().ok())
}

/// The entries of a directory by what their names say, sorted; none if it cannot be listed.
fn entries<K: Ord>(directory: &Path, key: impl Fn(&str) -> Option<K>) -> Vec<(K, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let found = entries.filter_map(|entry| Some((key(entry.file_name().to_str()?)?, entry.path())));
    let mut found: Vec<(K, PathBuf)> = found.collect();
    found.sort();
    found
}

/// The content of a file; `None` without one.
fn text(path: &Path) -> Result<Option<String>, MachineError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(MachineError::Read { path: path.to_owned(), source }),
    }
}

/// The number in a file; `None` without one.
fn number(path: &Path) -> Result<Option<u32>, MachineError> {
    let Some(content) = text(path)? else { return Ok(None) };
    match content.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(MachineError::NoNumber { path: path.to_owned(), content }),
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;

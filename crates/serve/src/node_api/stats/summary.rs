//! Composes the answer of `/stats/summary` from measurements, like upstream's CRI stats provider with what cAdvisor adds to it
//! on a usual node. Pure.

use std::collections::BTreeMap;

use hostlet_base::{PodRef, PodUid};
use hostlet_host::{FilesystemUsage, SpaceUsage};
use hostlet_observe::stats::{
    CgroupUsage, ContainerDisk, ContainerUsage, DiskUsage, NetworkDevice, NodeUsage, PodStorage, PodUsage,
    PressureAverages, PressureStall, UnitUsage, VolumeUsage,
};
use jiff::Timestamp;

use super::summary_types::{
    ClaimReference, ContainerStats, CpuStats, FsStats, InterfaceStats, IoStats, MemoryStats, NetworkStats,
    NodeStats, PodReference, PodStats, ProcessStats, Psi, PsiData, RlimitStats, RuntimeStats, Summary,
    SwapStats, Time, VolumeStats,
};
use super::volumes::VolumeFacts;

/// The network device whose counters upstream considers the pod's or the node's.
const DEFAULT_DEVICE: &str = "eth0";

/// Facts about the node.
#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    pub(super) name: String,
    /// Memory reserved for huge pages, bytes, which is not available to others (`HugepageAwareEviction`).
    pub(super) huge_pages: u64,
    /// When the daemon started.
    pub(super) started_at: Timestamp,
}

/// What a complete summary has beyond CPU and memory.
pub(super) struct Disks<'a> {
    pub(super) usage: &'a DiskUsage,
    /// The measured volumes.
    pub(super) volumes: &'a BTreeMap<PodUid, PodStorage>,
    /// What the specs of the pods say of their volumes.
    pub(super) facts: &'a BTreeMap<PodUid, VolumeFacts>,
}

/// The summary; with CPU and memory alone unless there are disks.
pub(super) fn summary(facts: &NodeFacts, usage: &NodeUsage, disks: Option<&Disks<'_>>) -> Summary {
    let system = [
        ("kubelet", &usage.kubelet),
        ("runtime", &usage.runtime),
        ("misc", &usage.misc),
        ("pods", &usage.all_pods),
    ];
    let system = system.into_iter().filter_map(|(name, unit)| Some((name, unit.as_ref()?)));
    let started_at = |name: &str, unit: &UnitUsage| match name {
        "kubelet" => facts.started_at,
        _ => unit.usage.created_at,
    };
    let root = &usage.root.usage;
    let mut memory = memory(root);
    memory.available_bytes = memory.available_bytes.map(|bytes| bytes.saturating_sub(facts.huge_pages));
    let node = NodeStats {
        node_name: facts.name.clone(),
        system_containers: system
            .map(|(name, unit)| ContainerStats {
                io: disks.map(|_| io(&unit.usage)),
                ..of_cgroup(name, started_at(name, unit), Some(unit))
            })
            .collect(),
        start_time: Time(root.created_at),
        cpu: Some(cpu(root)),
        memory: Some(memory),
        io: disks.map(|_| io(root)),
        network: disks.map(|_| network(usage.at, &usage.network)),
        fs: disks.map(|disks| root_fs(disks.usage)),
        runtime: disks.map(|disks| runtime(disks.usage)),
        rlimit: disks.map(|_| RlimitStats {
            time: Time(usage.at),
            maxpid: usage.tasks.max,
            curproc: usage.tasks.current,
        }),
        swap: Some(swap(root)),
    };
    // Pods of which nothing runs are not part of it.
    let running = usage.pods.iter().filter(|pod| !pod.containers.is_empty());
    Summary { node, pods: running.map(|pod| of_pod(pod, usage.at, disks)).collect() }
}

fn of_pod(pod: &PodUsage, at: Timestamp, disks: Option<&Disks<'_>>) -> PodStats {
    let used = pod.usage();
    let used = used.as_deref();
    let containers: Vec<ContainerStats> =
        pod.containers.iter().map(|container| of_container(container, disks)).collect();
    let processes = pod.containers.iter().filter_map(|container| container.unit.as_ref());
    let process_count = processes.map(|unit| unit.usage.processes.processes).sum();
    let (local, others) = disks.map(|disks| volumes(&pod.pod, disks)).unwrap_or_default();
    let ephemeral_storage = disks.map(|disks| {
        let own = disks.usage.pods.get(&pod.pod.uid).copied().unwrap_or_default();
        ephemeral_storage(disks.usage, &containers, &local, own)
    });
    PodStats {
        pod_ref: PodReference {
            name: pod.pod.name.to_string(),
            namespace: pod.pod.namespace.to_string(),
            uid: pod.pod.uid.to_string(),
        },
        start_time: Time(pod.sandbox.created_at),
        containers,
        cpu: used.map(cpu),
        memory: used.map(memory),
        io: disks.and(pod.unit.as_ref()).map(|unit| io(&unit.usage)),
        network: disks.and(pod.network.as_ref()).map(|devices| network(at, devices)),
        volumes: local.into_iter().chain(others).collect(),
        ephemeral_storage,
        processes: disks.map(|_| ProcessStats { process_count }),
        swap: used.map(swap),
    }
}

fn of_container(container: &ContainerUsage, disks: Option<&Disks<'_>>) -> ContainerStats {
    let stats = of_cgroup(&container.name, container.created_at, container.unit.as_ref());
    let Some(disks) = disks else { return stats };
    let ContainerDisk { layer, logs } =
        disks.usage.containers.get(&container.id).copied().unwrap_or_default();
    let rootfs = layer.map(|layer| FsStats {
        used_bytes: Some(layer.bytes),
        inodes_used: layer.inodes,
        ..filesystem(layer.at, layer.filesystem)
    });
    ContainerStats {
        io: container.unit.as_ref().map(|unit| io(&unit.usage)),
        rootfs,
        logs: logs.map(|logs| space(disks.usage.at, logs, disks.usage.root)),
        ..stats
    }
}

/// CPU, memory and swap of a cgroup.
fn of_cgroup(name: &str, started_at: Timestamp, unit: Option<&UnitUsage>) -> ContainerStats {
    let usage = unit.map(|unit| &unit.usage);
    ContainerStats {
        name: name.to_owned(),
        start_time: Time(started_at),
        cpu: usage.map(cpu),
        memory: usage.map(memory),
        io: None,
        rootfs: None,
        logs: None,
        swap: usage.map(swap),
    }
}

fn cpu(usage: &CgroupUsage) -> CpuStats {
    CpuStats {
        time: Time(usage.at),
        usage_nano_cores: usage.cpu.rate,
        usage_core_nano_seconds: usage.cpu.total,
        psi: psi(&usage.cpu.pressure),
    }
}

fn memory(usage: &CgroupUsage) -> MemoryStats {
    let memory = &usage.memory;
    MemoryStats {
        time: Time(usage.at),
        available_bytes: usage.limits.memory.map(|limit| limit.saturating_sub(memory.working_set)),
        usage_bytes: memory.usage,
        working_set_bytes: memory.working_set,
        rss_bytes: memory.rss,
        page_faults: memory.page_faults,
        major_page_faults: memory.major_page_faults,
        psi: psi(&memory.pressure),
    }
}

fn swap(usage: &CgroupUsage) -> SwapStats {
    SwapStats {
        time: Time(usage.at),
        swap_available_bytes: usage.limits.swap.map(|limit| limit.saturating_sub(usage.memory.swap)),
        swap_usage_bytes: usage.memory.swap,
    }
}

fn io(usage: &CgroupUsage) -> IoStats {
    IoStats { time: Time(usage.at), psi: psi(&usage.io.pressure) }
}

fn psi(pressure: &PressureStall) -> Psi {
    let data = |averages: &PressureAverages| {
        let PressureAverages { avg10, avg60, avg300, total } = *averages;
        PsiData { total, avg10, avg60, avg300 }
    };
    Psi { full: data(&pressure.full), some: data(&pressure.some) }
}

fn network(at: Timestamp, devices: &[NetworkDevice]) -> NetworkStats {
    let interface = |device: &NetworkDevice| InterfaceStats {
        name: device.name.clone(),
        rx_bytes: Some(device.rx_bytes),
        rx_errors: Some(device.rx_errors),
        tx_bytes: Some(device.tx_bytes),
        tx_errors: Some(device.tx_errors),
    };
    let default = devices.iter().find(|device| device.name == DEFAULT_DEVICE);
    NetworkStats {
        time: Time(at),
        default: default.map(interface).unwrap_or_default(),
        interfaces: devices.iter().map(interface).collect(),
    }
}

/// A filesystem, without what uses it.
fn filesystem(at: Timestamp, usage: Option<FilesystemUsage>) -> FsStats {
    FsStats {
        time: Time(at),
        available_bytes: usage.map(|usage| usage.available),
        capacity_bytes: usage.map(|usage| usage.capacity),
        used_bytes: None,
        inodes_free: usage.map(|usage| usage.inodes_free),
        inodes: usage.map(|usage| usage.inodes),
        inodes_used: None,
    }
}

/// What something takes on a filesystem.
fn space(at: Timestamp, space: SpaceUsage, usage: FilesystemUsage) -> FsStats {
    FsStats { used_bytes: Some(space.bytes), inodes_used: Some(space.inodes), ..filesystem(at, Some(usage)) }
}

fn root_fs(disks: &DiskUsage) -> FsStats {
    FsStats {
        used_bytes: Some(disks.root.used),
        inodes_used: Some(disks.root.inodes_used()),
        ..filesystem(disks.at, Some(disks.root))
    }
}

/// Upstream reports the filesystem of the images for that of the containers too, unless a runtime keeps them apart.
fn runtime(disks: &DiskUsage) -> RuntimeStats {
    let images = &disks.images;
    let image_fs = FsStats {
        used_bytes: Some(images.images.bytes),
        inodes_used: images.images.inodes,
        ..filesystem(images.images.at, images.filesystem)
    };
    RuntimeStats { image_fs, container_fs: image_fs }
}

/// The measured volumes of a pod: those of its local storage, and others.
fn volumes(pod: &PodRef, disks: &Disks<'_>) -> (Vec<VolumeStats>, Vec<VolumeStats>) {
    let facts = disks.facts.get(&pod.uid);
    let claim = |name: &str| {
        let claim = facts?.claims.get(name)?;
        Some(ClaimReference { name: claim.clone(), namespace: pod.namespace.to_string() })
    };
    let stats = |(name, usage): (&String, &VolumeUsage)| VolumeStats {
        name: name.clone(),
        claim: claim(name),
        fs: space(usage.at, usage.space, usage.filesystem),
    };
    let measured = disks.volumes.get(&pod.uid).into_iter().flat_map(|storage| &storage.volumes);
    measured.map(stats).partition(|volume| facts.is_some_and(|facts| facts.local.contains(&volume.name)))
}

/// What a pod takes of the node's disk (upstream's `calcEphemeralStorage`).
fn ephemeral_storage(
    disks: &DiskUsage,
    containers: &[ContainerStats],
    local: &[VolumeStats],
    own: SpaceUsage,
) -> FsStats {
    let own = space(disks.at, own, disks.root);
    let of_containers = containers.iter().flat_map(|container| [container.rootfs, container.logs]).flatten();
    let of_volumes = local.iter().map(|volume| volume.fs);
    of_containers.chain(of_volumes).fold(own, |sum, part| FsStats {
        time: sum.time.max(part.time),
        used_bytes: add(sum.used_bytes, part.used_bytes),
        inodes_used: add(sum.inodes_used, part.inodes_used),
        ..sum
    })
}

fn add(sum: Option<u64>, part: Option<u64>) -> Option<u64> {
    Some(sum.unwrap_or_default().saturating_add(part.unwrap_or_default()))
}

//! The part of `/metrics/cadvisor` about the machine. Pure.

use hostlet_host::{CpuTopology, Machine};

use super::exposition::{Family, Kind, labels, number};

/// The facts about the machine as samples.
pub(super) fn render(machine: &Machine, topology: CpuTopology) -> String {
    let mut text = String::new();
    let version = labels(&[
        ("cadvisorRevision", ""),
        ("cadvisorVersion", ""),
        ("dockerVersion", ""),
        ("kernelVersion", &machine.kernel_version),
        ("osVersion", &machine.os_image),
    ]);
    let help = "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.";
    Family::new(&mut text, "cadvisor_version_info", help, Kind::Gauge).sample(&[&version], 1.0, None);
    let identity = labels(&[
        ("boot_id", &machine.boot_id),
        ("machine_id", &machine.machine_id),
        ("system_uuid", &machine.system_uuid),
    ]);
    let count = |count: usize| number(u64::try_from(count).unwrap_or(u64::MAX));
    let facts = [
        ("machine_cpu_cores", "Number of logical CPU cores.", count(machine.cpus)),
        ("machine_cpu_physical_cores", "Number of physical CPU cores.", count(topology.cores)),
        ("machine_cpu_sockets", "Number of CPU sockets.", count(topology.sockets)),
        ("machine_memory_bytes", "Amount of memory installed on the machine.", number(machine.memory)),
        ("machine_swap_bytes", "Amount of swap memory available on the machine.", number(machine.swap)),
    ];
    for (name, help, value) in facts {
        Family::new(&mut text, name, help, Kind::Gauge).sample(&[&identity], value, None);
    }
    let help = "1 if there was an error while getting machine metrics, 0 otherwise.";
    Family::new(&mut text, "machine_scrape_error", help, Kind::Gauge).sample(&[], 0.0, None);
    text
}

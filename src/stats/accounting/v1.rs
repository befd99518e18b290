//! The files of cgroup v1.

use super::files::Reader;
use crate::stats::parse;
use crate::stats::usage::{CgroupUsage, Detail, MemoryUsage};

/// Nanoseconds of a tick, the unit of `cpuacct.stat` (`USER_HZ` is 100 on every architecture of hostlet).
const TICK: u64 = 10_000_000;

pub(super) fn read(reader: &mut Reader<'_>, path: &str, detail: Detail, usage: &mut CgroupUsage) {
    let accounting = reader.accounting();
    let (time, memory) = (accounting.cpu_time.as_deref(), accounting.memory.as_deref());
    usage.cpu.total = reader.number(time, path, "cpuacct.usage").unwrap_or_default();
    usage.memory.usage = reader.number(memory, path, "memory.usage_in_bytes").unwrap_or_default();
    if let Some(text) = reader.text(memory, path, "memory.stat") {
        read_memory(text, &mut usage.memory);
    }
    usage.limits.memory = reader.limit(memory, path, "memory.limit_in_bytes");
    usage.limits.swap = swap_limit(reader, path);
    match detail {
        Detail::CpuAndMemory => {}
        Detail::All => read_rest(reader, path, usage),
    }
}

/// Memory and swap together. A kernel without accounting of swap has no such file, and upstream reads 0.
fn swap_limit(reader: &mut Reader<'_>, path: &str) -> Option<u64> {
    let memory = reader.accounting().memory.as_deref();
    let limit = reader.number(memory, path, "memory.memsw.limit_in_bytes").unwrap_or_default();
    (limit <= 1 << 62).then_some(limit)
}

fn read_rest(reader: &mut Reader<'_>, path: &str, usage: &mut CgroupUsage) {
    let accounting = reader.accounting();
    let (time, cpu) = (accounting.cpu_time.as_deref(), accounting.cpu.as_deref());
    let (memory, io) = (accounting.memory.as_deref(), accounting.io.as_deref());
    for (key, ticks) in parse::flat(reader.text(time, path, "cpuacct.stat").unwrap_or_default()) {
        match key {
            "user" => usage.cpu.user = ticks.saturating_mul(TICK),
            "system" => usage.cpu.system = ticks.saturating_mul(TICK),
            _ => {}
        }
    }
    for (key, value) in parse::flat(reader.text(cpu, path, "cpu.stat").unwrap_or_default()) {
        match key {
            "nr_periods" => usage.cpu.periods = value,
            "nr_throttled" => usage.cpu.throttled_periods = value,
            "throttled_time" => usage.cpu.throttled = value,
            _ => {}
        }
    }
    usage.limits.cpu_shares = reader.number(cpu, path, "cpu.shares").unwrap_or_default();
    usage.limits.cpu_period = reader.number(cpu, path, "cpu.cfs_period_us").unwrap_or_default();
    // Without quota it is -1.
    usage.limits.cpu_quota = reader.number(cpu, path, "cpu.cfs_quota_us");
    let mut number = |file: &str| reader.number(memory, path, file).unwrap_or_default();
    usage.memory.max_usage = number("memory.max_usage_in_bytes");
    usage.memory.limit_hits = number("memory.failcnt");
    usage.memory.kernel = number("memory.kmem.usage_in_bytes");
    usage.limits.reservation = reader.limit(memory, path, "memory.soft_limit_in_bytes");
    let control = parse::flat(reader.text(memory, path, "memory.oom_control").unwrap_or_default());
    usage.memory.oom_kills = control.filter(|(key, _)| *key == "oom_kill").map(|(_, kills)| kills).sum();
    let bytes = reader.text(io, path, "blkio.throttle.io_service_bytes_recursive").map(str::to_owned);
    let operations = reader.text(io, path, "blkio.throttle.io_serviced_recursive").unwrap_or_default();
    usage.io.devices = parse::blkio(&bytes.unwrap_or_default(), operations);
    usage.processes = reader.processes(path);
}

/// `memory.stat`: what begins with `total_` has the cgroups below it, which every kernel of today counts.
fn read_memory(text: &str, memory: &mut MemoryUsage) {
    for (key, value) in parse::flat(text) {
        match key {
            "total_cache" => memory.cache = value,
            "total_rss" => memory.rss = value,
            "total_swap" => memory.swap = value,
            "total_mapped_file" => memory.mapped_file = value,
            "total_active_file" => memory.active_file = value,
            "total_inactive_file" => memory.inactive_file = value,
            // These alone are without the cgroups below it, as upstream's.
            "pgfault" => memory.page_faults = value,
            "pgmajfault" => memory.major_page_faults = value,
            _ => {}
        }
    }
    memory.working_set = memory.usage.saturating_sub(memory.inactive_file);
}

//! The files of cgroup v2.

use super::files::Reader;
use crate::stats::parse;
use crate::stats::usage::{CgroupUsage, CpuUsage, MemoryUsage, PressureStall};

/// CPU shares of v1 for the lowest weight, and how many more there are for the highest (KEP-2254).
const SHARES: (u64, u64) = (2, 262_142);
/// The highest weight, less the lowest.
const WEIGHTS: u64 = 9_999;
/// Nanoseconds of a microsecond.
const MICROSECOND: u64 = 1_000;

/// CPU time, memory, swap, and pressure on CPU and memory.
pub(super) fn read(reader: &mut Reader<'_>, usage: &mut CgroupUsage) {
    let mount = reader.accounting().memory.as_deref();
    reader.each(mount, "cpu.stat", |(key, value)| take_cpu(&mut usage.cpu, key, value));
    reader.each(mount, "memory.stat", |(key, value)| take_memory(&mut usage.memory, key, value));
    match reader.number(mount, "memory.current") {
        Some(bytes) => {
            usage.memory.usage = bytes;
            usage.memory.swap = reader.number(mount, "memory.swap.current").unwrap_or_default();
            usage.limits.memory = reader.limit(mount, "memory.max");
            usage.limits.swap = reader.swap_limit("memory.swap.max");
        }
        // The root has none of these files.
        None => {
            usage.memory.usage = usage.memory.rss.saturating_add(usage.memory.cache);
            usage.memory.swap = parse::swap_in_use(reader.proc_text("meminfo").unwrap_or_default());
        }
    }
    usage.cpu.pressure = pressure(reader, "cpu.pressure");
    usage.memory.pressure = pressure(reader, "memory.pressure");
}

/// Waiting for a resource; zero without the kernel's support.
pub(super) fn pressure(reader: &mut Reader<'_>, file: &str) -> PressureStall {
    let mount = reader.accounting().memory.as_deref();
    reader.text(mount, file).and_then(parse::pressure).unwrap_or_default()
}

/// Everything else but processes.
pub(super) fn read_rest(reader: &mut Reader<'_>, usage: &mut CgroupUsage) {
    let mount = reader.accounting().memory.as_deref();
    usage.memory.max_usage = reader.number(mount, "memory.peak").unwrap_or_default();
    usage.limits.reservation = reader.limit(mount, "memory.min");
    reader.each(mount, "memory.events", |(key, value)| match key {
        "high" => usage.memory.high_events = value,
        "max" => usage.memory.max_events = value,
        "oom_kill" => usage.memory.oom_kills = value,
        _ => {}
    });
    let weight = reader.number(mount, "cpu.weight");
    usage.limits.cpu_shares = weight.map_or(0, |weight| {
        SHARES.0 + weight.saturating_sub(1).min(WEIGHTS).saturating_mul(SHARES.1) / WEIGHTS
    });
    if let Some((quota, period)) = reader.text(mount, "cpu.max").and_then(|text| text.trim().split_once(' '))
    {
        // Without quota it is `max`.
        usage.limits.cpu_quota = quota.parse().ok();
        usage.limits.cpu_period = period.parse().unwrap_or_default();
    }
    usage.io.devices = parse::io_stat(reader.text(mount, "io.stat").unwrap_or_default());
}

fn take_cpu(cpu: &mut CpuUsage, key: &str, value: u64) {
    match key {
        "usage_usec" => cpu.total = value.saturating_mul(MICROSECOND),
        "user_usec" => cpu.user = value.saturating_mul(MICROSECOND),
        "system_usec" => cpu.system = value.saturating_mul(MICROSECOND),
        "nr_periods" => cpu.periods = value,
        "nr_throttled" => cpu.throttled_periods = value,
        "throttled_usec" => cpu.throttled = value.saturating_mul(MICROSECOND),
        "nr_bursts" => cpu.burst_periods = value,
        "burst_usec" => cpu.burst = value.saturating_mul(MICROSECOND),
        _ => {}
    }
}

fn take_memory(memory: &mut MemoryUsage, key: &str, value: u64) {
    match key {
        "anon" => memory.rss = value,
        "file" => memory.cache = value,
        "kernel" => memory.kernel = value,
        "file_mapped" => memory.mapped_file = value,
        "file_dirty" => memory.dirty_file = value,
        "file_writeback" => memory.writeback_file = value,
        "active_file" => memory.active_file = value,
        "inactive_file" => memory.inactive_file = value,
        "pgfault" => memory.page_faults = value,
        "pgmajfault" => memory.major_page_faults = value,
        "pgscan" => memory.scanned_pages = value,
        "pgsteal" => memory.reclaimed_pages = value,
        "workingset_refault_file" => memory.refaults_file = value,
        "workingset_refault_anon" => memory.refaults_anon = value,
        _ => {}
    }
}

//! The files of cgroup v2.

use std::path::Path;

use super::files::Reader;
use crate::stats::parse;
use crate::stats::usage::{CgroupUsage, CpuUsage, Detail, MemoryUsage, Pressure};

/// CPU shares of v1 for the lowest weight, and how many more there are for the highest (KEP-2254).
const SHARES: (u64, u64) = (2, 262_142);
/// The highest weight, less the lowest.
const WEIGHTS: u64 = 9_999;
/// Nanoseconds of a microsecond.
const MICROSECOND: u64 = 1_000;

pub(super) fn read(reader: &mut Reader<'_>, path: &str, detail: Detail, usage: &mut CgroupUsage) {
    let accounting = reader.accounting();
    let mount = accounting.memory.as_deref();
    if let Some(text) = reader.text(mount, path, "cpu.stat") {
        read_cpu(text, &mut usage.cpu);
    }
    if let Some(text) = reader.text(mount, path, "memory.stat") {
        read_memory(text, &mut usage.memory);
    }
    match reader.number(mount, path, "memory.current") {
        Some(bytes) => {
            usage.memory.usage = bytes;
            usage.memory.swap = reader.number(mount, path, "memory.swap.current").unwrap_or_default();
            usage.limits.memory = reader.limit(mount, path, "memory.max");
            usage.limits.swap = swap_limit(reader, path);
        }
        // The root has none of these files.
        None => {
            usage.memory.usage = usage.memory.rss.saturating_add(usage.memory.cache);
            usage.memory.swap = parse::swap_in_use(reader.proc_text("meminfo").unwrap_or_default());
        }
    }
    usage.memory.working_set = usage.memory.usage.saturating_sub(usage.memory.inactive_file);
    usage.cpu.pressure = pressure(reader, mount, path, "cpu.pressure");
    usage.memory.pressure = pressure(reader, mount, path, "memory.pressure");
    match detail {
        Detail::CpuAndMemory => {}
        Detail::All => read_rest(reader, mount, path, usage),
    }
}

/// A kernel without accounting of swap has no such file, and upstream reads 0.
fn swap_limit(reader: &mut Reader<'_>, path: &str) -> Option<u64> {
    let mount = reader.accounting().memory.as_deref();
    let limit = reader.number(mount, path, "memory.swap.max").unwrap_or_default();
    (limit <= 1 << 62).then_some(limit)
}

fn pressure(reader: &mut Reader<'_>, mount: Option<&Path>, path: &str, file: &str) -> Pressure {
    reader.text(mount, path, file).and_then(parse::pressure).unwrap_or_default()
}

fn read_rest(reader: &mut Reader<'_>, mount: Option<&Path>, path: &str, usage: &mut CgroupUsage) {
    usage.memory.max_usage = reader.number(mount, path, "memory.peak").unwrap_or_default();
    usage.limits.reservation = reader.limit(mount, path, "memory.min");
    for (key, value) in parse::flat(reader.text(mount, path, "memory.events").unwrap_or_default()) {
        match key {
            "high" => usage.memory.high_events = value,
            "max" => usage.memory.max_events = value,
            "oom_kill" => usage.memory.oom_kills = value,
            _ => {}
        }
    }
    let weight = reader.number(mount, path, "cpu.weight");
    usage.limits.cpu_shares = weight.map_or(0, |weight| {
        SHARES.0 + weight.saturating_sub(1).min(WEIGHTS).saturating_mul(SHARES.1) / WEIGHTS
    });
    if let Some((quota, period)) =
        reader.text(mount, path, "cpu.max").and_then(|text| text.trim().split_once(' '))
    {
        // Without quota it is `max`.
        usage.limits.cpu_quota = quota.parse().ok();
        usage.limits.cpu_period = period.parse().unwrap_or_default();
    }
    usage.io.devices = parse::io_stat(reader.text(mount, path, "io.stat").unwrap_or_default());
    usage.io.pressure = pressure(reader, mount, path, "io.pressure");
    usage.processes = reader.processes(path);
}

fn read_cpu(text: &str, cpu: &mut CpuUsage) {
    for (key, value) in parse::flat(text) {
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
}

fn read_memory(text: &str, memory: &mut MemoryUsage) {
    for (key, value) in parse::flat(text) {
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
}

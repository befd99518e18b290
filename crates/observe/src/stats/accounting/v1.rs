//! The files of cgroup v1.

use std::path::Path;

use super::files::Reader;
use crate::stats::parse;
use crate::stats::usage::{CgroupUsage, DeviceIo};

/// Nanoseconds of a tick, the unit of `cpuacct.stat` (`USER_HZ` is 100 on every architecture of hostlet).
const TICK: u64 = 10_000_000;

/// CPU time, memory and swap.
pub(super) fn read(reader: &mut Reader<'_>, usage: &mut CgroupUsage) {
    let accounting = reader.accounting();
    let (time, mount) = (accounting.cpu_time.as_deref(), accounting.memory.as_deref());
    usage.cpu.total = reader.number(time, "cpuacct.usage").unwrap_or_default();
    let memory = &mut usage.memory;
    memory.usage = reader.number(mount, "memory.usage_in_bytes").unwrap_or_default();
    // What begins with `total_` has the cgroups below it, which every kernel of today counts.
    reader.each(mount, "memory.stat", |(key, value)| match key {
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
    });
    usage.limits.memory = reader.limit(mount, "memory.limit_in_bytes");
    // Memory and swap together.
    usage.limits.swap = reader.swap_limit("memory.memsw.limit_in_bytes");
}

/// Everything else but processes.
pub(super) fn read_rest(reader: &mut Reader<'_>, usage: &mut CgroupUsage) {
    let accounting = reader.accounting();
    let (time, cpu) = (accounting.cpu_time.as_deref(), accounting.cpu.as_deref());
    let (memory, io) = (accounting.memory.as_deref(), accounting.io.as_deref());
    reader.each(time, "cpuacct.stat", |(key, ticks)| match key {
        "user" => usage.cpu.user = ticks.saturating_mul(TICK),
        "system" => usage.cpu.system = ticks.saturating_mul(TICK),
        _ => {}
    });
    reader.each(cpu, "cpu.stat", |(key, value)| match key {
        "nr_periods" => usage.cpu.periods = value,
        "nr_throttled" => usage.cpu.throttled_periods = value,
        "throttled_time" => usage.cpu.throttled = value,
        _ => {}
    });
    usage.limits.cpu_shares = reader.number(cpu, "cpu.shares").unwrap_or_default();
    usage.limits.cpu_period = reader.number(cpu, "cpu.cfs_period_us").unwrap_or_default();
    // Without quota it is -1.
    usage.limits.cpu_quota = reader.number(cpu, "cpu.cfs_quota_us");
    let mut number = |file: &str| reader.number(memory, file).unwrap_or_default();
    usage.memory.max_usage = number("memory.max_usage_in_bytes");
    usage.memory.limit_hits = number("memory.failcnt");
    usage.memory.kernel = number("memory.kmem.usage_in_bytes");
    usage.limits.reservation = reader.limit(memory, "memory.soft_limit_in_bytes");
    reader.each(memory, "memory.oom_control", |(key, value)| {
        if key == "oom_kill" {
            usage.memory.oom_kills = value;
        }
    });
    usage.io.devices = devices(reader, io);
}

/// Files of bytes and operations on block devices, by who counts them: the scheduler BFQ for its disks, and the layer that throttles
/// for all. Both count the cgroups below.
const COUNTED: [(&str, &str); 2] = [
    ("blkio.bfq.io_service_bytes_recursive", "blkio.bfq.io_serviced_recursive"),
    ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"),
];

/// The first count that there is, as upstream.
fn devices<'a>(reader: &mut Reader<'a>, mount: Option<&'a Path>) -> Vec<DeviceIo> {
    for (bytes, operations) in COUNTED {
        let operations = reader.text(mount, operations).filter(|text| parse::has_devices(text));
        if let Some(operations) = operations.map(str::to_owned) {
            return parse::blkio(reader.text(mount, bytes).unwrap_or_default(), &operations);
        }
    }
    Vec::new()
}

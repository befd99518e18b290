//! What a cgroup uses. Plain values. Cumulative ones count from the cgroup's creation.

use jiff::Timestamp;

/// A block device by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockDevice {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// What was read from and written to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it: bytes, and numbers of operations")]
pub struct DeviceIo {
    pub device: BlockDevice,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    /// What v1 counts besides.
    pub others: Option<OtherBytes>,
}

impl DeviceIo {
    /// Nothing of this device.
    pub(super) fn of(device: BlockDevice) -> Self {
        Self { device, read_bytes: 0, written_bytes: 0, reads: 0, writes: 0, others: None }
    }
}

/// Bytes by other kinds of operations than reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub struct OtherBytes {
    pub sync: u64,
    pub r#async: u64,
    pub discard: u64,
    pub total: u64,
}

/// What a disk of the host did since the boot. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each is the column of the same name in Documentation/admin-guide/iostats.rst"
)]
pub struct DiskActivity {
    pub reads: u64,
    pub reads_merged: u64,
    pub sectors_read: u64,
    pub reading: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub sectors_written: u64,
    pub writing: u64,
    pub in_progress: u64,
    pub busy: u64,
    pub weighted: u64,
}

/// What a network device received and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of the same name in /proc/net/dev")]
pub struct NetworkDevice {
    pub name: String,
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

/// How long tasks waited for a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureStall {
    /// While some of them waited.
    pub some: PressureAverages,
    /// While all of them waited.
    pub full: PressureAverages,
}

/// Shares of time, and a total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureAverages {
    /// Share of the last 10 s, percent.
    pub avg10: f64,
    /// Share of the last minute, percent.
    pub avg60: f64,
    /// Share of the last 5 minutes, percent.
    pub avg300: f64,
    /// Total, microseconds.
    pub total: u64,
}

/// Use of the CPU. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUsage {
    /// Time in total.
    pub total: u64,
    /// The rate of `total` now, billionths of a core; `None` as long as there is only one measurement.
    pub rate: Option<u64>,
    /// Time in user mode.
    pub user: u64,
    /// Time in the kernel.
    pub system: u64,
    /// Elapsed periods of the quota.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled_periods: u64,
    /// Time for which it was throttled.
    pub throttled: u64,
    /// Periods with more than the quota.
    pub burst_periods: u64,
    /// Time beyond the quota.
    pub burst: u64,
    /// Waiting for the CPU; zero without the kernel's support.
    pub pressure: PressureStall,
}

/// Use of memory, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUsage {
    /// All of it, with the page cache.
    pub usage: u64,
    /// What cannot be freed easily: all but the inactive page cache.
    pub working_set: u64,
    /// Anonymous memory.
    pub rss: u64,
    /// The page cache.
    pub cache: u64,
    /// Mapped files, part of the page cache.
    pub mapped_file: u64,
    /// Anonymous memory in swap space.
    pub swap: u64,
    /// Memory that the kernel uses for it: stacks, page tables, slabs.
    pub kernel: u64,
    /// The highest `usage`; 0 if the kernel does not record it.
    pub max_usage: u64,
    /// How often the limit was hit (v1).
    pub limit_hits: u64,
    /// Active page cache.
    pub active_file: u64,
    /// Inactive page cache.
    pub inactive_file: u64,
    /// Page cache that is to be written.
    pub dirty_file: u64,
    /// Page cache that is being written.
    pub writeback_file: u64,
    /// Page faults, a number.
    pub page_faults: u64,
    /// Page faults that needed a disk, a number.
    pub major_page_faults: u64,
    /// Pages scanned for reclaim, a number.
    pub scanned_pages: u64,
    /// Pages reclaimed, a number.
    pub reclaimed_pages: u64,
    /// Pages of files that were needed again, a number.
    pub refaults_file: u64,
    /// Anonymous pages that were needed again, a number.
    pub refaults_anon: u64,
    /// How often `memory.high` throttled it (v2).
    pub high_events: u64,
    /// How often `memory.max` was hit (v2).
    pub max_events: u64,
    /// Processes that the OOM killer ended.
    pub oom_kills: u64,
    /// Waiting for memory; zero without the kernel's support.
    pub pressure: PressureStall,
}

/// The limits of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageLimits {
    /// Memory in bytes; `None` without limit.
    pub memory: Option<u64>,
    /// Swap in bytes, on v1 memory and swap together; `None` without limit.
    pub swap: Option<u64>,
    /// Protected memory, on v1 the soft limit, in bytes; `None` without limit.
    pub reservation: Option<u64>,
    /// CPU shares of v1.
    pub cpu_shares: u64,
    /// Period of the CPU quota, microseconds.
    pub cpu_period: u64,
    /// CPU time per period, microseconds; `None` without quota.
    pub cpu_quota: Option<u64>,
}

/// Input and output of block devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoUsage {
    /// One entry per device with any input or output.
    pub devices: Vec<DeviceIo>,
    /// Waiting for devices; zero without the kernel's support.
    pub pressure: PressureStall,
}

/// The processes of a cgroup itself, without processes of cgroups below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupProcesses {
    /// Number of processes.
    pub processes: u64,
    /// PID of the first of them.
    pub first: Option<u32>,
    /// Its soft limit of open files, -1 without limit.
    pub open_files_limit: Option<i64>,
    /// Number of open file descriptors of all of them; `None` if counting them takes too long.
    pub descriptors: Option<u64>,
    /// Number of those that are sockets; `None` if counting them takes too long.
    pub sockets: Option<u64>,
    /// Threads of the cgroup and those below it.
    pub threads: u64,
    /// Their limit; 0 without one.
    pub threads_max: u64,
}

/// What a cgroup uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupUsage {
    /// When it was measured.
    pub at: Timestamp,
    /// When the cgroup was created.
    pub created_at: Timestamp,
    /// Total and rate of CPU time; more with [`Detail::All`].
    pub cpu: CpuUsage,
    /// With the page cache; what can be freed of it is not in the working set.
    pub memory: MemoryUsage,
    /// Limits of the cgroup itself.
    pub limits: UsageLimits,
    /// Block devices; with [`Detail::Summary`] only waiting for them, with less empty.
    pub io: IoUsage,
    /// Processes; with [`Detail::Summary`] without limits, threads and open files, with less empty.
    pub processes: CgroupProcesses,
}

impl CgroupUsage {
    /// The CPU, memory and swap that these use together. They have a limit if each of them has one. `None` if there are none.
    pub(super) fn sum(all: &[&Self]) -> Option<Self> {
        let sum =
            |part: fn(&Self) -> u64| all.iter().fold(0_u64, |sum, usage| sum.saturating_add(part(usage)));
        let sum_of_all = |part: fn(&Self) -> Option<u64>| {
            all.iter().try_fold(0_u64, |sum, usage| Some(sum.saturating_add(part(usage)?)))
        };
        Some(Self {
            at: all.iter().map(|usage| usage.at).max()?,
            cpu: CpuUsage {
                total: sum(|it| it.cpu.total),
                rate: sum_of_all(|it| it.cpu.rate),
                ..CpuUsage::default()
            },
            memory: MemoryUsage {
                usage: sum(|it| it.memory.usage),
                working_set: sum(|it| it.memory.working_set),
                rss: sum(|it| it.memory.rss),
                swap: sum(|it| it.memory.swap),
                page_faults: sum(|it| it.memory.page_faults),
                major_page_faults: sum(|it| it.memory.major_page_faults),
                ..MemoryUsage::default()
            },
            limits: UsageLimits {
                memory: sum_of_all(|it| it.limits.memory),
                swap: sum_of_all(|it| it.limits.swap),
                ..UsageLimits::default()
            },
            ..Self::default()
        })
    }
}

/// How much is read of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The same as the next, of the host and of all pods together only.
    Node,
    /// Total CPU time, memory, swap, and their limits.
    CpuAndMemory,
    /// The same with what else a summary of the node has: processes, networks, and waiting for block devices.
    Summary,
    /// Everything that the kernel reports.
    All,
}

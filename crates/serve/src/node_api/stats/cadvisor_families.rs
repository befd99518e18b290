//! The families of `/metrics/cadvisor` and where their values are: cAdvisor's names, types and help texts. docs/metrics.md lists those
//! that are missing, with reasons.

use hostlet_host::FilesystemUsage;
use hostlet_observe::stats::{CgroupUsage, DeviceIo, DiskActivity, NetworkDevice};

use super::cadvisor_units::Unit;
use super::exposition::Kind::{Counter, Gauge};
use super::exposition::{FamilyOf, epoch, number, of, seconds};

/// Values that differ by one or two labels, which are rendered.
type Labelled = Vec<(&'static str, f64)>;

/// Where the values of a family are.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A fact that has no time.
    Fact(fn(&Unit) -> Option<f64>),
    /// The time of the answer.
    Seen,
    /// A measurement.
    Usage(fn(&CgroupUsage) -> Option<f64>),
    /// Several measurements.
    Labelled(fn(&CgroupUsage) -> Labelled),
    /// One for each network device.
    Network(fn(&NetworkDevice) -> u64),
    /// The node's filesystem.
    Filesystem(fn(&FilesystemUsage) -> u64),
    /// One for each block device, and for the whole host also what its filesystem's disk counted.
    Device(fn(&DeviceIo) -> u64, Option<OfDisk>),
    /// What the disk of the node's filesystem counted.
    Disk(OfDisk),
    /// The bytes of each kind of operation on each block device.
    Operations,
}

/// A count of a disk.
type OfDisk = fn(&DiskActivity) -> f64;

/// Microseconds as seconds.
fn from_micros(micros: u64) -> f64 {
    number(micros) / 1e6
}

/// Milliseconds as seconds.
fn from_millis(millis: u64) -> f64 {
    number(millis) / 1e3
}

/// A limit; 0 without one.
fn limit(bytes: Option<u64>) -> Option<f64> {
    Some(number(bytes.unwrap_or_default()))
}

/// A measurement that there is only with a CPU quota.
fn with_quota(usage: &CgroupUsage, value: f64) -> Option<f64> {
    usage.limits.cpu_quota.map(|_| value)
}

pub(super) const FAMILIES: [FamilyOf<Source>; 77] = [
    of("container_blkio_device_usage_total", Counter, "Blkio Device bytes usage", Source::Operations),
    of(
        "container_cpu_cfs_burst_periods_total",
        Counter,
        "Number of periods when burst occurs.",
        Source::Usage(|u| with_quota(u, number(u.cpu.burst_periods))),
    ),
    of(
        "container_cpu_cfs_burst_seconds_total",
        Counter,
        "Total time duration the container has been bursted.",
        Source::Usage(|u| with_quota(u, seconds(u.cpu.burst))),
    ),
    of(
        "container_cpu_cfs_periods_total",
        Counter,
        "Number of elapsed enforcement period intervals.",
        Source::Usage(|u| with_quota(u, number(u.cpu.periods))),
    ),
    of(
        "container_cpu_cfs_throttled_periods_total",
        Counter,
        "Number of throttled period intervals.",
        Source::Usage(|u| with_quota(u, number(u.cpu.throttled_periods))),
    ),
    of(
        "container_cpu_cfs_throttled_seconds_total",
        Counter,
        "Total time duration the container has been throttled.",
        Source::Usage(|u| with_quota(u, seconds(u.cpu.throttled))),
    ),
    of(
        "container_cpu_system_seconds_total",
        Counter,
        "Cumulative system cpu time consumed in seconds.",
        Source::Usage(|u| Some(seconds(u.cpu.system))),
    ),
    of(
        "container_cpu_usage_seconds_total",
        Counter,
        "Cumulative cpu time consumed in seconds.",
        Source::Labelled(|u| match u.cpu.total {
            0 => Vec::new(),
            total => vec![("cpu=\"total\"", seconds(total))],
        }),
    ),
    of(
        "container_cpu_user_seconds_total",
        Counter,
        "Cumulative user cpu time consumed in seconds.",
        Source::Usage(|u| Some(seconds(u.cpu.user))),
    ),
    of(
        "container_creation_time_seconds",
        Gauge,
        "Container creation time since unix epoch in seconds.",
        Source::Fact(|unit| Some(epoch(unit.created_at).floor())),
    ),
    of(
        "container_file_descriptors",
        Gauge,
        "Number of open file descriptors for the container.",
        Source::Usage(|u| u.processes.descriptors.map(number)),
    ),
    of(
        "container_fs_inodes_free",
        Gauge,
        "Number of available Inodes",
        Source::Filesystem(|filesystem| filesystem.inodes_free),
    ),
    of(
        "container_fs_inodes_total",
        Gauge,
        "Number of Inodes",
        Source::Filesystem(|filesystem| filesystem.inodes),
    ),
    of(
        "container_fs_io_current",
        Gauge,
        "Number of I/Os currently in progress",
        Source::Disk(|disk| number(disk.in_progress)),
    ),
    of(
        "container_fs_io_time_seconds_total",
        Counter,
        "Cumulative count of seconds spent doing I/Os",
        Source::Disk(|disk| from_millis(disk.busy)),
    ),
    of(
        "container_fs_io_time_weighted_seconds_total",
        Counter,
        "Cumulative weighted I/O time in seconds",
        Source::Disk(|disk| from_millis(disk.weighted)),
    ),
    of(
        "container_fs_limit_bytes",
        Gauge,
        "Number of bytes that can be consumed by the container on this filesystem.",
        Source::Filesystem(|filesystem| filesystem.capacity),
    ),
    of(
        "container_fs_read_seconds_total",
        Counter,
        "Cumulative count of seconds spent reading",
        Source::Disk(|disk| from_millis(disk.reading)),
    ),
    of(
        "container_fs_reads_bytes_total",
        Counter,
        "Cumulative count of bytes read",
        Source::Device(|io| io.read_bytes, None),
    ),
    of(
        "container_fs_reads_merged_total",
        Counter,
        "Cumulative count of reads merged",
        Source::Disk(|disk| number(disk.reads_merged)),
    ),
    of(
        "container_fs_reads_total",
        Counter,
        "Cumulative count of reads completed",
        Source::Device(|io| io.reads, Some(|disk| number(disk.reads))),
    ),
    of(
        "container_fs_sector_reads_total",
        Counter,
        "Cumulative count of sector reads completed",
        Source::Disk(|disk| number(disk.sectors_read)),
    ),
    of(
        "container_fs_sector_writes_total",
        Counter,
        "Cumulative count of sector writes completed",
        Source::Disk(|disk| number(disk.sectors_written)),
    ),
    of(
        "container_fs_usage_bytes",
        Gauge,
        "Number of bytes that are consumed by the container on this filesystem.",
        Source::Filesystem(|filesystem| filesystem.used),
    ),
    of(
        "container_fs_write_seconds_total",
        Counter,
        "Cumulative count of seconds spent writing",
        Source::Disk(|disk| from_millis(disk.writing)),
    ),
    of(
        "container_fs_writes_bytes_total",
        Counter,
        "Cumulative count of bytes written",
        Source::Device(|io| io.written_bytes, None),
    ),
    of(
        "container_fs_writes_merged_total",
        Counter,
        "Cumulative count of writes merged",
        Source::Disk(|disk| number(disk.writes_merged)),
    ),
    of(
        "container_fs_writes_total",
        Counter,
        "Cumulative count of writes completed",
        Source::Device(|io| io.writes, Some(|disk| number(disk.writes))),
    ),
    of(
        "container_health_state",
        Gauge,
        "The result of the container's health check",
        // The runtime has no health checks of its own.
        Source::Usage(|_| Some(-1.0)),
    ),
    of("container_last_seen", Gauge, "Last time a container was seen by the exporter", Source::Seen),
    of(
        "container_memory_cache",
        Gauge,
        "Number of bytes of page cache memory.",
        Source::Usage(|u| Some(number(u.memory.cache))),
    ),
    of(
        "container_memory_events_high_total",
        Counter,
        "Cumulative count of memory.high throttle events for the container",
        Source::Usage(|u| Some(number(u.memory.high_events))),
    ),
    of(
        "container_memory_events_max_total",
        Counter,
        "Cumulative count of memory.max limit hit events for the container",
        Source::Usage(|u| Some(number(u.memory.max_events))),
    ),
    of(
        "container_memory_failcnt",
        Counter,
        "Number of memory usage hits limits",
        Source::Usage(|u| Some(number(u.memory.limit_hits))),
    ),
    of(
        "container_memory_failures_total",
        Counter,
        "Cumulative count of memory allocation failures.",
        Source::Labelled(|u| {
            let (faults, major) = (number(u.memory.page_faults), number(u.memory.major_page_faults));
            vec![
                ("failure_type=\"pgfault\",scope=\"container\"", faults),
                ("failure_type=\"pgfault\",scope=\"hierarchy\"", faults),
                ("failure_type=\"pgmajfault\",scope=\"container\"", major),
                ("failure_type=\"pgmajfault\",scope=\"hierarchy\"", major),
            ]
        }),
    ),
    of(
        "container_memory_file_dirty_bytes",
        Gauge,
        "Number of bytes of file cache that has been modified but not yet written back to disk.",
        Source::Usage(|u| Some(number(u.memory.dirty_file))),
    ),
    of(
        "container_memory_file_writeback_bytes",
        Gauge,
        "Number of bytes of file cache that is currently being written back to disk.",
        Source::Usage(|u| Some(number(u.memory.writeback_file))),
    ),
    of(
        "container_memory_kernel_usage",
        Gauge,
        "Size of kernel memory allocated in bytes.",
        Source::Usage(|u| Some(number(u.memory.kernel))),
    ),
    of(
        "container_memory_mapped_file",
        Gauge,
        "Size of memory mapped files in bytes.",
        Source::Usage(|u| Some(number(u.memory.mapped_file))),
    ),
    of(
        "container_memory_max_usage_bytes",
        Gauge,
        "Maximum memory usage recorded in bytes",
        Source::Usage(|u| Some(number(u.memory.max_usage))),
    ),
    of(
        "container_memory_pgscan_total",
        Counter,
        "Cumulative number of pages scanned by the page reclaim algorithm.",
        Source::Usage(|u| Some(number(u.memory.scanned_pages))),
    ),
    of(
        "container_memory_pgsteal_total",
        Counter,
        "Cumulative number of pages reclaimed by the page reclaim algorithm.",
        Source::Usage(|u| Some(number(u.memory.reclaimed_pages))),
    ),
    of("container_memory_rss", Gauge, "Size of RSS in bytes.", Source::Usage(|u| Some(number(u.memory.rss)))),
    of(
        "container_memory_swap",
        Gauge,
        "Container swap usage in bytes.",
        Source::Usage(|u| Some(number(u.memory.swap))),
    ),
    of(
        "container_memory_total_active_file_bytes",
        Gauge,
        "Current total active file in bytes.",
        Source::Usage(|u| Some(number(u.memory.active_file))),
    ),
    of(
        "container_memory_total_inactive_file_bytes",
        Gauge,
        "Current total inactive file in bytes.",
        Source::Usage(|u| Some(number(u.memory.inactive_file))),
    ),
    of(
        "container_memory_usage_bytes",
        Gauge,
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        Source::Usage(|u| Some(number(u.memory.usage))),
    ),
    of(
        "container_memory_working_set_bytes",
        Gauge,
        "Current working set in bytes.",
        Source::Usage(|u| Some(number(u.memory.working_set))),
    ),
    of(
        "container_memory_workingset_refault_anon_total",
        Counter,
        "Cumulative number of refaults of previously evicted anonymous pages.",
        Source::Usage(|u| Some(number(u.memory.refaults_anon))),
    ),
    of(
        "container_memory_workingset_refault_file_total",
        Counter,
        "Cumulative number of refaults of previously evicted file pages.",
        Source::Usage(|u| Some(number(u.memory.refaults_file))),
    ),
    of(
        "container_network_receive_bytes_total",
        Counter,
        "Cumulative count of bytes received",
        Source::Network(|device| device.rx_bytes),
    ),
    of(
        "container_network_receive_errors_total",
        Counter,
        "Cumulative count of errors encountered while receiving",
        Source::Network(|device| device.rx_errors),
    ),
    of(
        "container_network_receive_packets_dropped_total",
        Counter,
        "Cumulative count of packets dropped while receiving",
        Source::Network(|device| device.rx_dropped),
    ),
    of(
        "container_network_receive_packets_total",
        Counter,
        "Cumulative count of packets received",
        Source::Network(|device| device.rx_packets),
    ),
    of(
        "container_network_transmit_bytes_total",
        Counter,
        "Cumulative count of bytes transmitted",
        Source::Network(|device| device.tx_bytes),
    ),
    of(
        "container_network_transmit_errors_total",
        Counter,
        "Cumulative count of errors encountered while transmitting",
        Source::Network(|device| device.tx_errors),
    ),
    of(
        "container_network_transmit_packets_dropped_total",
        Counter,
        "Cumulative count of packets dropped while transmitting",
        Source::Network(|device| device.tx_dropped),
    ),
    of(
        "container_network_transmit_packets_total",
        Counter,
        "Cumulative count of packets transmitted",
        Source::Network(|device| device.tx_packets),
    ),
    of(
        "container_oom_events_total",
        Counter,
        "Count of out of memory events observed for the container",
        Source::Usage(|u| Some(number(u.memory.oom_kills))),
    ),
    of(
        "container_pressure_cpu_stalled_seconds_total",
        Counter,
        "Total time duration no tasks in the container could make progress due to CPU congestion.",
        Source::Usage(|u| Some(from_micros(u.cpu.pressure.full.total))),
    ),
    of(
        "container_pressure_cpu_waiting_seconds_total",
        Counter,
        "Total time duration tasks in the container have waited due to CPU congestion.",
        Source::Usage(|u| Some(from_micros(u.cpu.pressure.some.total))),
    ),
    of(
        "container_pressure_io_stalled_seconds_total",
        Counter,
        "Total time duration no tasks in the container could make progress due to IO congestion.",
        Source::Usage(|u| Some(from_micros(u.io.pressure.full.total))),
    ),
    of(
        "container_pressure_io_waiting_seconds_total",
        Counter,
        "Total time duration tasks in the container have waited due to IO congestion.",
        Source::Usage(|u| Some(from_micros(u.io.pressure.some.total))),
    ),
    of(
        "container_pressure_memory_stalled_seconds_total",
        Counter,
        "Total time duration no tasks in the container could make progress due to memory congestion.",
        Source::Usage(|u| Some(from_micros(u.memory.pressure.full.total))),
    ),
    of(
        "container_pressure_memory_waiting_seconds_total",
        Counter,
        "Total time duration tasks in the container have waited due to memory congestion.",
        Source::Usage(|u| Some(from_micros(u.memory.pressure.some.total))),
    ),
    of(
        "container_processes",
        Gauge,
        "Number of processes running inside the container.",
        Source::Usage(|u| Some(number(u.processes.processes))),
    ),
    of(
        "container_sockets",
        Gauge,
        "Number of open sockets for the container.",
        Source::Usage(|u| u.processes.sockets.map(number)),
    ),
    of(
        "container_spec_cpu_period",
        Gauge,
        "CPU period of the container.",
        Source::Fact(|unit| Some(number(unit.usage.limits.cpu_period))),
    ),
    of(
        "container_spec_cpu_quota",
        Gauge,
        "CPU quota of the container.",
        Source::Fact(|unit| unit.usage.limits.cpu_quota.map(number)),
    ),
    of(
        "container_spec_cpu_shares",
        Gauge,
        "CPU share of the container.",
        Source::Fact(|unit| Some(number(unit.usage.limits.cpu_shares))),
    ),
    of(
        "container_spec_memory_limit_bytes",
        Gauge,
        "Memory limit for the container.",
        Source::Fact(|unit| limit(unit.usage.limits.memory)),
    ),
    of(
        "container_spec_memory_reservation_limit_bytes",
        Gauge,
        "Memory reservation limit for the container.",
        Source::Fact(|unit| limit(unit.usage.limits.reservation)),
    ),
    of(
        "container_spec_memory_swap_limit_bytes",
        Gauge,
        "Memory swap limit for the container.",
        Source::Fact(|unit| limit(unit.usage.limits.swap)),
    ),
    of(
        "container_start_time_seconds",
        Gauge,
        "Start time of the container since unix epoch in seconds.",
        Source::Fact(|unit| Some(epoch(unit.started_at).floor())),
    ),
    of(
        "container_threads",
        Gauge,
        "Number of threads running inside the container",
        Source::Usage(|u| Some(number(u.processes.threads))),
    ),
    of(
        "container_threads_max",
        Gauge,
        "Maximum number of threads allowed inside the container, infinity if value is zero",
        Source::Usage(|u| Some(number(u.processes.threads_max))),
    ),
    of(
        "container_ulimits_soft",
        Gauge,
        "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice",
        Source::Labelled(|u| {
            #[allow(clippy::cast_precision_loss, reason = "the format has no other numbers")]
            let soft = u.processes.open_files_limit.map(|soft| soft as f64);
            soft.map(|soft| ("ulimit=\"max_open_files\"", soft)).into_iter().collect()
        }),
    ),
];

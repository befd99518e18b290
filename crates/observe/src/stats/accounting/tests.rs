//! Cgroups of both versions as plain files.

use hostlet_host::cgroup::CgroupVersion;
use jiff::Timestamp;

use super::{Accounting, Reader};
use crate::stats::testing::FakeHost;
use crate::stats::{BlockDevice, CgroupProcesses, CgroupUsage, Detail, DeviceIo, OtherBytes, UsageLimits};

fn read(version: CgroupVersion, path: &str, detail: Detail) -> Option<CgroupUsage> {
    let host = FakeHost::new(version);
    let (accounting, proc) = (Accounting::of(&host.cgroups), host.proc());
    Reader::new(&accounting, &proc).read(path, detail, Timestamp::UNIX_EPOCH)
}

const BOTH: [CgroupVersion; 2] = [CgroupVersion::V1, CgroupVersion::V2];

#[test]
fn both_versions_tell_the_same() {
    for version in BOTH {
        let usage = read(version, "/kubepods", Detail::All).unwrap();
        let (cpu, memory) = (&usage.cpu, &usage.memory);
        assert_eq!(
            (cpu.total, cpu.user, cpu.system),
            (2_500_000_000, 1_500_000_000, 1_000_000_000),
            "{version}"
        );
        assert_eq!((cpu.periods, cpu.throttled_periods, cpu.throttled), (40, 3, 750_000_000));
        assert_eq!((memory.usage, memory.max_usage, memory.working_set), (8 << 20, 9 << 20, 6 << 20));
        assert_eq!((memory.rss, memory.cache, memory.mapped_file), (4 << 20, 3 << 20, 65_536));
        assert_eq!((memory.inactive_file, memory.active_file, memory.kernel), (2 << 20, 1 << 20, 1 << 20));
        assert_eq!((memory.page_faults, memory.major_page_faults, memory.oom_kills), (500, 7, 1));
        let io = DeviceIo {
            device: BlockDevice { major: 254, minor: 0 },
            read_bytes: 4096,
            written_bytes: 8192,
            reads: 1,
            writes: 2,
            others: match version {
                CgroupVersion::V1 => Some(OtherBytes { total: 12_288, ..OtherBytes::default() }),
                CgroupVersion::V2 => None,
            },
        };
        assert_eq!(usage.io.devices, [io]);
        let processes = &usage.processes;
        assert_eq!(
            (processes.processes, processes.first, processes.open_files_limit),
            (2, Some(4711), Some(1024))
        );
        assert_eq!((processes.threads, processes.threads_max), (5, 0));
        assert_eq!((processes.descriptors, processes.sockets), (Some(3), Some(1)));
    }
}

#[test]
fn what_a_scheduler_counts_comes_first_on_v1() {
    let host = FakeHost::new(CgroupVersion::V1);
    let (accounting, proc) = (Accounting::of(&host.cgroups), host.proc());
    let written = |bytes: &str, operations: &str| {
        let blkio = host.path().join("cgroup/blkio/kubepods");
        std::fs::write(blkio.join("blkio.bfq.io_service_bytes_recursive"), bytes).unwrap();
        std::fs::write(blkio.join("blkio.bfq.io_serviced_recursive"), operations).unwrap();
        let usage = Reader::new(&accounting, &proc).read("/kubepods", Detail::All, Timestamp::UNIX_EPOCH);
        usage.unwrap().io.devices[0].written_bytes
    };
    assert_eq!(written("Total 0\n", "Total 0\n"), 8192, "another scheduler is in use");
    assert_eq!(written("254:0 Write 77\nTotal 77\n", "254:0 Write 1\nTotal 1\n"), 77);
}

#[test]
fn each_version_has_limits_in_its_own_way() {
    let v1 = read(CgroupVersion::V1, "/kubepods", Detail::All).unwrap();
    let limits = UsageLimits {
        memory: Some(64 << 20),
        swap: None,
        reservation: None,
        cpu_shares: 102,
        cpu_period: 100_000,
        cpu_quota: Some(50_000),
    };
    assert_eq!(v1.limits, limits);
    assert_eq!(v1.memory.limit_hits, 2);
    let v2 = read(CgroupVersion::V2, "/kubepods", Detail::All).unwrap();
    // The weight 4 is what 80 shares became.
    let limits = UsageLimits { swap: Some(1 << 20), reservation: Some(0), cpu_shares: 80, ..limits };
    assert_eq!(v2.limits, limits);
    assert_eq!((v2.memory.swap, v2.memory.high_events, v2.memory.max_events), (4096, 4, 2));
    assert_eq!((v2.cpu.burst_periods, v2.cpu.burst), (1, 2_000_000));
    assert_eq!((v2.cpu.pressure.some.avg10, v2.cpu.pressure.some.total), (1.5, 123_456));
    assert_eq!((v2.memory.pressure.full.total, v2.io.pressure.some.total), (6, 9));
}

#[test]
fn the_root_of_v2_counts_what_processes_and_files_have() {
    let root = read(CgroupVersion::V2, "/", Detail::CpuAndMemory).unwrap();
    assert_eq!((root.memory.usage, root.memory.working_set), (7 << 20, 5 << 20));
    // Of the whole host.
    assert_eq!(root.memory.swap, 1 << 20);
}

#[test]
fn less_detail_reads_less_and_nothing_is_read_of_what_is_gone() {
    for version in BOTH {
        let usage = read(version, "/kubepods", Detail::CpuAndMemory).unwrap();
        assert_eq!((usage.cpu.total, usage.memory.working_set), (2_500_000_000, 6 << 20));
        assert_eq!(
            (usage.cpu.user, usage.io.devices.len(), usage.processes.processes),
            (
                match version {
                    CgroupVersion::V1 => 0,
                    CgroupVersion::V2 => 1_500_000_000,
                },
                0,
                0
            )
        );
        assert_eq!(usage.limits.memory, Some(64 << 20));
        let usage = read(version, "/kubepods", Detail::Summary).unwrap();
        let processes = CgroupProcesses { processes: 2, first: Some(4711), ..CgroupProcesses::default() };
        assert_eq!((usage.memory.working_set, usage.processes), (6 << 20, processes));
        let waited = match version {
            CgroupVersion::V1 => 0,
            CgroupVersion::V2 => 9,
        };
        assert_eq!((usage.io.pressure.some.total, usage.io.devices.len()), (waited, 0));
        assert_eq!(read(version, "/kubepods/gone", Detail::All), None);
    }
}

#[test]
fn a_file_of_many_pages_is_read_as_a_whole() {
    let host = FakeHost::new(CgroupVersion::V2);
    host.set("/kubepods", "cgroup.procs", &"12345\n".repeat(20_000));
    let (accounting, proc) = (Accounting::of(&host.cgroups), host.proc());
    let mut reader = Reader::new(&accounting, &proc);
    for _ in 0..2 {
        let usage = reader.read("/kubepods", Detail::Summary, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((usage.processes.processes, usage.memory.working_set), (20_000, 6 << 20));
    }
}

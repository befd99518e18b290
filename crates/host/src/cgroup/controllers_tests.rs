//! Controller files of pods, written to a directory that stands in for a cgroup.

use std::fs;
use std::time::Duration;

use super::*;

fn settings(pids_limit: Option<i64>) -> CgroupSettings {
    CgroupSettings {
        driver: hostlet_base::CgroupDriver::Cgroupfs,
        root: String::new(),
        mount: "/sys/fs/cgroup".into(),
        proc: "/proc".into(),
        per_qos: true,
        huge_page_sizes: Vec::new(),
        pids_limit,
        cfs_quota: true,
        cfs_period: Duration::from_millis(100),
    }
}

fn spelled(version: CgroupVersion, controller_settings: &[ControllerSetting]) -> Vec<(String, String)> {
    controller_settings
        .iter()
        .flat_map(|setting| setting.file_values(version))
        .map(|line| (line.file.into_owned(), line.value))
        .collect()
}

#[test]
fn a_limited_pod() {
    let resources = PodResources {
        cpu_shares: 1024,
        cpu_quota: Some(50_000),
        memory_limit: Some(8192),
        memory_protection: MemoryProtection { min: 4096, low: 0 },
        memory_high: Some(8000),
        huge_pages: BTreeMap::from([(2 << 20, 4 << 20)]),
    };
    let settings = CgroupSettings { huge_page_sizes: vec![2 << 20, 1 << 30], ..settings(Some(100)) };
    let controller_settings = of_pod(&resources, &settings);
    let v1 = [
        ("cpu.shares", "1024"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "50000"),
        ("memory.limit_in_bytes", "8192"),
        ("pids.max", "100"),
        ("hugetlb.2MB.limit_in_bytes", "4194304"),
        ("hugetlb.2MB.rsvd.limit_in_bytes", "4194304"),
        ("hugetlb.1GB.limit_in_bytes", "0"),
        ("hugetlb.1GB.rsvd.limit_in_bytes", "0"),
    ];
    let v2 = [
        ("cpu.weight", "39"),
        ("cpu.max", "50000 100000"),
        ("memory.max", "8192"),
        ("memory.min", "4096"),
        ("memory.low", "0"),
        ("memory.high", "8000"),
        ("pids.max", "100"),
        ("hugetlb.2MB.max", "4194304"),
        ("hugetlb.2MB.rsvd.max", "4194304"),
        ("hugetlb.1GB.max", "0"),
        ("hugetlb.1GB.rsvd.max", "0"),
    ];
    assert_eq!(
        spelled(CgroupVersion::V1, &controller_settings),
        v1.map(|(file, value)| (file.to_owned(), value.to_owned()))
    );
    assert_eq!(
        spelled(CgroupVersion::V2, &controller_settings),
        v2.map(|(file, value)| (file.to_owned(), value.to_owned()))
    );
}

#[test]
fn an_unlimited_pod_and_quotas_off() {
    let free = PodResources { cpu_shares: 2, ..PodResources::default() };
    let capped = PodResources { cpu_quota: Some(1000), ..free.clone() };
    let without_quotas = CgroupSettings { cfs_quota: false, ..settings(Some(-1)) };
    assert_eq!(of_pod(&free, &settings(None)), of_pod(&capped, &without_quotas));
    let v1 = [("cpu.shares", "2"), ("cpu.cfs_quota_us", "-1"), ("memory.limit_in_bytes", "-1")];
    let v2 = [
        ("cpu.weight", "1"),
        ("cpu.max", "max 100000"),
        ("memory.max", "max"),
        ("memory.min", "0"),
        ("memory.low", "0"),
        ("memory.high", "max"),
    ];
    let controller_settings = of_pod(&free, &settings(None));
    assert_eq!(
        spelled(CgroupVersion::V1, &controller_settings),
        v1.map(|(file, value)| (file.to_owned(), value.to_owned()))
    );
    assert_eq!(
        spelled(CgroupVersion::V2, &controller_settings),
        v2.map(|(file, value)| (file.to_owned(), value.to_owned()))
    );
}

#[test]
fn only_differing_files_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let limit = dir.path().join("memory.limit_in_bytes");
    // What the kernel shows for no limit with pages of 4 and 64 KiB.
    for shown in ["9223372036854771712\n", "9223372036854710272\n"] {
        fs::write(&limit, shown).unwrap();
        assert!(ControllerSetting::Memory(None).is_set(CgroupVersion::V1, dir.path()).unwrap(), "{shown}");
        ControllerSetting::Memory(None).apply(CgroupVersion::V1, dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&limit).unwrap(), shown, "left alone");
    }
    ControllerSetting::Memory(Some(8192)).apply(CgroupVersion::V1, dir.path()).unwrap();
    assert_eq!(fs::read_to_string(&limit).unwrap(), "8192");
    assert!(!ControllerSetting::Memory(None).is_set(CgroupVersion::V1, dir.path()).unwrap());

    let high = dir.path().join("memory.high");
    fs::write(&high, "8192\n").unwrap();
    let above =
        |bytes| ControllerSetting::MemoryHigh(Some(bytes)).is_set(CgroupVersion::V2, dir.path()).unwrap();
    assert!(above(8193) && !above(8191), "the kernel rounds down to pages");

    let max = dir.path().join("cpu.max");
    fs::write(&max, "max 5000\n").unwrap();
    assert!(ControllerSetting::CpuQuota(None, 100_000).is_set(CgroupVersion::V2, dir.path()).unwrap());
    assert!(!ControllerSetting::CpuQuota(Some(1000), 5000).is_set(CgroupVersion::V2, dir.path()).unwrap());
}

#[test]
fn a_missing_controller_file_matters_only_for_limits() {
    let dir = tempfile::tempdir().unwrap();
    ControllerSetting::CpuQuota(None, 100_000).apply(CgroupVersion::V1, dir.path()).unwrap();
    let huge = ControllerSetting::HugePages { size: 2 << 20, limit: 0 };
    assert!(huge.is_set(CgroupVersion::V2, dir.path()).unwrap(), "the controller is optional");
    fs::write(dir.path().join("hugetlb.2MB.max"), "max\n").unwrap();
    huge.apply(CgroupVersion::V2, dir.path()).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("hugetlb.2MB.max")).unwrap(), "0");
    let error =
        ControllerSetting::CpuQuota(Some(1000), 100_000).apply(CgroupVersion::V1, dir.path()).unwrap_err();
    assert!(matches!(error, CgroupError::Write { path, .. } if path.ends_with("cpu.cfs_period_us")));
}

//! The controller files of a cgroup and their values; written only if they differ. Touches no other files.
//!
//! The files are written directly: cgroups-rs could do it, but with `/sys/fs/cgroup` hard-coded, the older linear conversion
//! of shares to weight, and errors that do not name the path.

use std::path::Path;
use std::time::Duration;

use super::shares::{cpu_shares, cpu_weight};
use super::{AllPods, CgroupError, CgroupVersion, PodResources, files};

/// v1 reports a missing memory limit as at least this: the largest page-aligned number, for any page size.
const V1_NO_LIMIT: u64 = (i64::MAX as u64) & !0xffff;

/// A controller setting, independent of the cgroup version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControllerSetting {
    /// CPU weight, in v1 shares.
    CpuShares(u64),
    /// CPU quota in microseconds per period in microseconds; `None` is unlimited.
    CpuQuota(Option<i64>, u64),
    /// Memory limit in bytes; `None` is unlimited.
    Memory(Option<i64>),
    /// Maximum number of processes and threads.
    Pids(i64),
}

/// A controller file and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileValue {
    file: &'static str,
    value: String,
    /// Whether the value means no limit: then the kernel need not have the file.
    is_unlimited: bool,
}

/// The settings of a pod's cgroup.
pub(super) fn of_pod(
    resources: &PodResources,
    period: Duration,
    quotas: bool,
    pids: Option<i64>,
) -> Vec<ControllerSetting> {
    let period = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
    let quota = if quotas { resources.cpu_quota } else { None };
    let mut controller_settings = vec![
        ControllerSetting::CpuShares(resources.cpu_shares),
        ControllerSetting::CpuQuota(quota, period),
        ControllerSetting::Memory(resources.memory_limit),
    ];
    controller_settings.extend(pids.filter(|limit| *limit > 0).map(ControllerSetting::Pids));
    controller_settings
}

/// The settings of the cgroup of all pods.
pub(super) fn of_all_pods(all: &AllPods) -> Vec<ControllerSetting> {
    vec![
        ControllerSetting::CpuShares(cpu_shares(all.milli_cpu)),
        ControllerSetting::Memory(Some(all.memory)),
        ControllerSetting::Pids(all.pids),
    ]
}

impl ControllerSetting {
    /// Its controller, which has the same name in both versions.
    pub(super) fn controller(self) -> &'static str {
        match self {
            Self::CpuShares(_) | Self::CpuQuota(..) => "cpu",
            Self::Memory(_) => "memory",
            Self::Pids(_) => "pids",
        }
    }

    fn file_values(self, version: CgroupVersion) -> Vec<FileValue> {
        let line = |file, value: String, is_unlimited| FileValue { file, value, is_unlimited };
        match (version, self) {
            (CgroupVersion::V1, Self::CpuShares(shares)) => {
                vec![line("cpu.shares", shares.to_string(), false)]
            }
            (CgroupVersion::V2, Self::CpuShares(shares)) => {
                vec![line("cpu.weight", cpu_weight(shares).to_string(), false)]
            }
            // Without a quota the period has no effect.
            (CgroupVersion::V1, Self::CpuQuota(None, _)) => vec![line("cpu.cfs_quota_us", "-1".into(), true)],
            (CgroupVersion::V1, Self::CpuQuota(Some(quota), period)) => vec![
                line("cpu.cfs_period_us", period.to_string(), false),
                line("cpu.cfs_quota_us", quota.to_string(), false),
            ],
            (CgroupVersion::V2, Self::CpuQuota(None, period)) => {
                vec![line("cpu.max", format!("max {period}"), true)]
            }
            (CgroupVersion::V2, Self::CpuQuota(Some(quota), period)) => {
                vec![line("cpu.max", format!("{quota} {period}"), false)]
            }
            (CgroupVersion::V1, Self::Memory(limit)) => {
                vec![line("memory.limit_in_bytes", limit.unwrap_or(-1).to_string(), limit.is_none())]
            }
            (CgroupVersion::V2, Self::Memory(limit)) => {
                vec![line(
                    "memory.max",
                    limit.map_or("max".into(), |bytes| bytes.to_string()),
                    limit.is_none(),
                )]
            }
            (CgroupVersion::V1 | CgroupVersion::V2, Self::Pids(limit)) => {
                vec![line("pids.max", limit.to_string(), false)]
            }
        }
    }

    /// Whether the cgroup at `directory` has this setting.
    pub(super) fn is_set(self, version: CgroupVersion, directory: &Path) -> Result<bool, CgroupError> {
        Ok(self.pending(version, directory)?.is_empty())
    }

    /// Applies the setting to files that differ.
    pub(super) fn apply(self, version: CgroupVersion, directory: &Path) -> Result<(), CgroupError> {
        for line in self.pending(version, directory)? {
            files::write(&directory.join(line.file), &line.value)?;
        }
        Ok(())
    }

    fn pending(self, version: CgroupVersion, directory: &Path) -> Result<Vec<FileValue>, CgroupError> {
        let mut pending = Vec::new();
        for line in self.file_values(version) {
            match files::read_if_present(&directory.join(line.file))? {
                None if line.is_unlimited => {}
                Some(current) if line.matches(&current) => {}
                Some(_) | None => pending.push(line),
            }
        }
        Ok(pending)
    }
}

impl FileValue {
    /// Whether `current`, the content of the file, is equivalent to the value.
    fn matches(&self, current: &str) -> bool {
        if self.is_unlimited && self.file == "memory.limit_in_bytes" {
            return current.parse().is_ok_and(|bytes: u64| bytes >= V1_NO_LIMIT);
        }
        if self.is_unlimited && self.file == "cpu.max" {
            return current.starts_with("max ");
        }
        self.value == current
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn spelled(
        version: CgroupVersion,
        controller_settings: &[ControllerSetting],
    ) -> Vec<(&'static str, String)> {
        controller_settings
            .iter()
            .flat_map(|setting| setting.file_values(version))
            .map(|line| (line.file, line.value))
            .collect()
    }

    #[test]
    fn a_limited_pod() {
        let resources = PodResources { cpu_shares: 1024, cpu_quota: Some(50_000), memory_limit: Some(4096) };
        let controller_settings = of_pod(&resources, PERIOD, true, Some(100));
        let v1 = [
            ("cpu.shares", "1024"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "50000"),
            ("memory.limit_in_bytes", "4096"),
            ("pids.max", "100"),
        ];
        let v2 =
            [("cpu.weight", "39"), ("cpu.max", "50000 100000"), ("memory.max", "4096"), ("pids.max", "100")];
        assert_eq!(
            spelled(CgroupVersion::V1, &controller_settings),
            v1.map(|(file, value)| (file, value.to_owned()))
        );
        assert_eq!(
            spelled(CgroupVersion::V2, &controller_settings),
            v2.map(|(file, value)| (file, value.to_owned()))
        );
    }

    #[test]
    fn an_unlimited_pod_and_quotas_off() {
        let free = PodResources { cpu_shares: 2, cpu_quota: None, memory_limit: None };
        let capped = PodResources { cpu_quota: Some(1000), ..free };
        assert_eq!(of_pod(&free, PERIOD, true, None), of_pod(&capped, PERIOD, false, Some(-1)));
        let v1 = [("cpu.shares", "2"), ("cpu.cfs_quota_us", "-1"), ("memory.limit_in_bytes", "-1")];
        let v2 = [("cpu.weight", "1"), ("cpu.max", "max 100000"), ("memory.max", "max")];
        let controller_settings = of_pod(&free, PERIOD, true, None);
        assert_eq!(
            spelled(CgroupVersion::V1, &controller_settings),
            v1.map(|(file, value)| (file, value.to_owned()))
        );
        assert_eq!(
            spelled(CgroupVersion::V2, &controller_settings),
            v2.map(|(file, value)| (file, value.to_owned()))
        );
    }

    #[test]
    fn only_differing_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let limit = dir.path().join("memory.limit_in_bytes");
        // What the kernel shows for no limit with pages of 4 and 64 KiB.
        for shown in ["9223372036854771712\n", "9223372036854710272\n"] {
            fs::write(&limit, shown).unwrap();
            assert!(
                ControllerSetting::Memory(None).is_set(CgroupVersion::V1, dir.path()).unwrap(),
                "{shown}"
            );
            ControllerSetting::Memory(None).apply(CgroupVersion::V1, dir.path()).unwrap();
            assert_eq!(fs::read_to_string(&limit).unwrap(), shown, "left alone");
        }
        ControllerSetting::Memory(Some(8192)).apply(CgroupVersion::V1, dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&limit).unwrap(), "8192");
        assert!(!ControllerSetting::Memory(None).is_set(CgroupVersion::V1, dir.path()).unwrap());

        let max = dir.path().join("cpu.max");
        fs::write(&max, "max 5000\n").unwrap();
        assert!(ControllerSetting::CpuQuota(None, 100_000).is_set(CgroupVersion::V2, dir.path()).unwrap());
        assert!(
            !ControllerSetting::CpuQuota(Some(1000), 5000).is_set(CgroupVersion::V2, dir.path()).unwrap()
        );
    }

    #[test]
    fn a_missing_controller_file_matters_only_for_limits() {
        let dir = tempfile::tempdir().unwrap();
        ControllerSetting::CpuQuota(None, 100_000).apply(CgroupVersion::V1, dir.path()).unwrap();
        let error = ControllerSetting::CpuQuota(Some(1000), 100_000)
            .apply(CgroupVersion::V1, dir.path())
            .unwrap_err();
        assert!(matches!(error, CgroupError::Write { path, .. } if path.ends_with("cpu.cfs_period_us")));
    }
}

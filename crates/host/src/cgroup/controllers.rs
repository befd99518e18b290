//! The controller files of a cgroup and their values; written only if they differ. Touches no other files.
//!
//! The files are written directly: cgroups-rs could do it, but with `/sys/fs/cgroup` hard-coded, the older linear conversion
//! of shares to weight, and errors that do not name the path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use hostlet_base::MemoryProtection;

use super::shares::{cpu_shares, cpu_weight};
use super::{
    AllPods, CgroupError, CgroupSettings, CgroupVersion, ClassResources, DaemonResources, PodResources, files,
};

/// v1 reports a missing memory limit as at least this: the largest page-aligned number, for any page size.
const V1_NO_LIMIT: u64 = (i64::MAX as u64) & !0xffff;

/// The controller of huge pages, and the beginning of its files.
const HUGETLB: &str = "hugetlb";

/// A controller setting, independent of the cgroup version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControllerSetting {
    /// CPU weight, in v1 shares.
    CpuShares(u64),
    /// CPU quota in microseconds per period in microseconds; `None` is unlimited.
    CpuQuota(Option<i64>, u64),
    /// Memory limit in bytes; `None` is unlimited.
    Memory(Option<i64>),
    /// Bytes of memory that are never reclaimed; v2 only.
    MemoryMin(i64),
    /// Bytes of memory that are reclaimed only if nothing unprotected is left; v2 only.
    MemoryLow(i64),
    /// Bytes of memory above which processes are throttled; `None` is never. v2 only.
    MemoryHigh(Option<i64>),
    /// Maximum number of processes and threads.
    Pids(i64),
    /// Limit in bytes for huge pages of a size in bytes.
    HugePages { size: u64, limit: i64 },
}

/// A controller file and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileValue {
    file: Cow<'static, str>,
    value: String,
    /// Whether the value means no limit: then the kernel need not have the file.
    is_unlimited: bool,
}

/// The settings of a pod's cgroup.
pub(super) fn of_pod(resources: &PodResources, settings: &CgroupSettings) -> Vec<ControllerSetting> {
    let period = u64::try_from(settings.cfs_period.as_micros()).unwrap_or(u64::MAX);
    let quota = if settings.cfs_quota { resources.cpu_quota } else { None };
    let mut controller_settings = vec![
        ControllerSetting::CpuShares(resources.cpu_shares),
        ControllerSetting::CpuQuota(quota, period),
        ControllerSetting::Memory(resources.memory_limit),
    ];
    controller_settings.extend(protection(resources.memory_protection));
    controller_settings.push(ControllerSetting::MemoryHigh(resources.memory_high));
    controller_settings.extend(settings.pids_limit.filter(|limit| *limit > 0).map(ControllerSetting::Pids));
    controller_settings.extend(huge_pages(&resources.huge_pages, settings));
    controller_settings
}

pub(super) fn of_all_pods(all: &AllPods, settings: &CgroupSettings) -> Vec<ControllerSetting> {
    let mut controller_settings = vec![
        ControllerSetting::CpuShares(cpu_shares(all.milli_cpu)),
        ControllerSetting::Memory(Some(all.memory)),
        ControllerSetting::Pids(all.pids),
    ];
    controller_settings.extend(huge_pages(&all.huge_pages, settings));
    controller_settings
}

/// The settings of the cgroup of burstable pods.
pub(super) fn of_burstable(resources: &ClassResources) -> Vec<ControllerSetting> {
    let mut controller_settings =
        vec![ControllerSetting::CpuShares(cpu_shares(resources.burstable_milli_cpu))];
    controller_settings.extend(protection(resources.burstable_memory));
    controller_settings
}

/// The settings of a cgroup of the host's daemons. As upstream, a reservation of no memory limits none.
pub(super) fn of_daemons(resources: &DaemonResources, settings: &CgroupSettings) -> Vec<ControllerSetting> {
    let above_zero = |amount: Option<i64>| amount.filter(|amount| *amount > 0);
    let mut controller_settings = Vec::new();
    controller_settings
        .extend(resources.milli_cpu.map(|milli| ControllerSetting::CpuShares(cpu_shares(milli))));
    if let Some(memory) = above_zero(resources.memory) {
        controller_settings.push(ControllerSetting::Memory(Some(memory)));
        controller_settings
            .extend(resources.is_memory_protected.then_some(ControllerSetting::MemoryMin(memory)));
    }
    controller_settings.extend(above_zero(resources.pids).map(ControllerSetting::Pids));
    if resources.has_no_huge_pages {
        controller_settings.extend(huge_pages(&BTreeMap::new(), settings));
    }
    controller_settings
}

/// Both kinds of protection of memory.
pub(super) fn protection(memory: MemoryProtection) -> [ControllerSetting; 2] {
    [ControllerSetting::MemoryMin(memory.min), ControllerSetting::MemoryLow(memory.low)]
}

/// A limit for each page size of the machine.
fn huge_pages<'a>(
    limits: &'a BTreeMap<u64, i64>,
    settings: &'a CgroupSettings,
) -> impl Iterator<Item = ControllerSetting> + 'a {
    let limit = |size: &u64| limits.get(size).copied().unwrap_or_default();
    settings
        .huge_page_sizes
        .iter()
        .map(move |size| ControllerSetting::HugePages { size: *size, limit: limit(size) })
}

/// A huge page size in the notation of the hugetlb controller, e.g. `2MB`.
pub fn huge_page_size(bytes: u64) -> String {
    match bytes >> 10 {
        kb if kb >= 1 << 20 => format!("{}GB", kb >> 20),
        kb if kb >= 1 << 10 => format!("{}MB", kb >> 10),
        kb => format!("{kb}KB"),
    }
}

impl ControllerSetting {
    /// Whether the kernel, or a parent that does not delegate the controller, need not have its files: without the hugetlb
    /// controller huge pages are not limited, as upstream.
    pub(super) fn is_optional(self) -> bool {
        match self {
            Self::HugePages { .. } => true,
            Self::CpuShares(_)
            | Self::CpuQuota(..)
            | Self::Memory(_)
            | Self::MemoryMin(_)
            | Self::MemoryLow(_)
            | Self::MemoryHigh(_)
            | Self::Pids(_) => false,
        }
    }

    /// Its controller, which has the same name in both versions.
    pub(super) fn controller(self) -> &'static str {
        match self {
            Self::CpuShares(_) | Self::CpuQuota(..) => "cpu",
            Self::Memory(_) | Self::MemoryMin(_) | Self::MemoryLow(_) | Self::MemoryHigh(_) => "memory",
            Self::Pids(_) => "pids",
            Self::HugePages { .. } => HUGETLB,
        }
    }

    fn file_values(self, version: CgroupVersion) -> Vec<FileValue> {
        let line =
            |file, value: String, is_unlimited| FileValue { file: Cow::Borrowed(file), value, is_unlimited };
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
            (CgroupVersion::V1, Self::MemoryMin(_) | Self::MemoryLow(_) | Self::MemoryHigh(_)) => Vec::new(),
            (CgroupVersion::V2, Self::MemoryMin(min)) => {
                vec![line("memory.min", min.to_string(), min == 0)]
            }
            (CgroupVersion::V2, Self::MemoryLow(low)) => {
                vec![line("memory.low", low.to_string(), low == 0)]
            }
            (CgroupVersion::V2, Self::MemoryHigh(high)) => {
                vec![line(
                    "memory.high",
                    high.map_or("max".into(), |bytes| bytes.to_string()),
                    high.is_none(),
                )]
            }
            (CgroupVersion::V1 | CgroupVersion::V2, Self::Pids(limit)) => {
                vec![line("pids.max", limit.to_string(), false)]
            }
            (version, Self::HugePages { size, limit }) => {
                let last = match version {
                    CgroupVersion::V1 => "limit_in_bytes",
                    CgroupVersion::V2 => "max",
                };
                // Pages in use, and pages that were promised to a mapping.
                let file = |kind| Cow::Owned(format!("{HUGETLB}.{}{kind}.{last}", huge_page_size(size)));
                ["", ".rsvd"]
                    .map(|kind| FileValue { file: file(kind), value: limit.to_string(), is_unlimited: false })
                    .into()
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
            files::write(&directory.join(&*line.file), &line.value)?;
        }
        Ok(())
    }

    fn pending(self, version: CgroupVersion, directory: &Path) -> Result<Vec<FileValue>, CgroupError> {
        let mut pending = Vec::new();
        for line in self.file_values(version) {
            match files::read_if_present(&directory.join(&*line.file))? {
                None if line.is_unlimited || self.is_optional() => {}
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
        let bytes = |text: &str| text.parse::<u64>().ok().filter(|_| self.file.starts_with("memory."));
        match (bytes(&self.value), bytes(current)) {
            // The kernel counts pages.
            (Some(desired), Some(current)) => desired / procfs::page_size() == current / procfs::page_size(),
            _ => self.value == current,
        }
    }
}

#[cfg(test)]
#[path = "controllers_tests.rs"]
mod tests;

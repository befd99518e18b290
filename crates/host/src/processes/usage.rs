//! What the kernel knows of this process.

use std::path::Path;

use procfs::process::{Limit, LimitValue, Process};

/// Usage and limits of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// User and system time, seconds.
    pub cpu_seconds: f64,
    /// Number of open file descriptors.
    pub open_files: u64,
    /// The limit of them; `None` without one.
    pub max_open_files: Option<u64>,
    /// Resident memory, bytes.
    pub resident_memory: u64,
    /// Virtual memory, bytes.
    pub virtual_memory: u64,
    /// The limit of it, bytes; `None` without one.
    pub max_virtual_memory: Option<u64>,
}

impl ProcessUsage {
    /// Reads it below `proc`. What cannot be read is 0, or no limit.
    pub fn read(proc: &Path) -> Self {
        let mut usage = Self::default();
        let Ok(own) = Process::new_with_root(proc.join("self")) else { return usage };
        if let Ok(stat) = own.stat() {
            usage.cpu_seconds = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
            usage.resident_memory = stat.rss.saturating_mul(procfs::page_size());
            usage.virtual_memory = stat.vsize;
        }
        if let Ok(limits) = own.limits() {
            usage.max_open_files = value(limits.max_open_files);
            usage.max_virtual_memory = value(limits.max_address_space);
        }
        // The directory that is read is open, too.
        usage.open_files = own.fd_count().map_or(0, |files| files.saturating_sub(1) as u64);
        usage
    }
}

fn value(limit: Limit) -> Option<u64> {
    match limit.soft_limit {
        LimitValue::Unlimited => None,
        LimitValue::Value(value) => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read() {
        let usage = ProcessUsage::read(Path::new("/proc"));
        assert!(usage.resident_memory > 1 << 20 && usage.virtual_memory > usage.resident_memory, "{usage:?}");
        assert!(usage.open_files > 2, "{usage:?}");
        assert!(usage.max_open_files.is_none_or(|most| most > usage.open_files), "{usage:?}");
        assert!(usage.cpu_seconds >= 0.0);
        assert_eq!(ProcessUsage::read(Path::new("/nowhere")), ProcessUsage::default());
    }
}

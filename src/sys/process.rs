//! What the kernel knows of this process.

use std::fs;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};

/// Usage and limits of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// User and system time, seconds.
    pub cpu_seconds: f64,
    /// Open files.
    pub open_files: u64,
    /// The limit of them.
    pub max_open_files: u64,
    /// Resident memory, bytes.
    pub resident_memory: u64,
    /// Virtual memory, bytes.
    pub virtual_memory: u64,
    /// The limit of it, bytes; `None` without one.
    pub max_virtual_memory: Option<u64>,
}

impl ProcessUsage {
    /// Reads it below `proc`. What cannot be read is 0.
    pub fn read(proc: &Path) -> Self {
        let own = proc.join("self");
        let stat = fs::read_to_string(own.join("stat")).unwrap_or_default();
        let size = |name| sysconf(name).ok().flatten().and_then(|size| u64::try_from(size).ok());
        let (ticks, page) =
            (size(SysconfVar::CLK_TCK).unwrap_or(100), size(SysconfVar::PAGE_SIZE).unwrap_or(4096));
        let limit = |resource| getrlimit(resource).ok().map(|(soft, _)| soft);
        let Stat { time, virtual_memory, resident_pages } = Stat::parse(&stat).unwrap_or_default();
        Self {
            cpu_seconds: time as f64 / ticks as f64,
            // The directory that is read is open, too.
            open_files: fs::read_dir(own.join("fd"))
                .map_or(0, |files| files.count().saturating_sub(1) as u64),
            max_open_files: limit(Resource::RLIMIT_NOFILE).unwrap_or_default(),
            resident_memory: resident_pages.saturating_mul(page),
            virtual_memory,
            max_virtual_memory: limit(Resource::RLIMIT_AS).filter(|limit| *limit != u64::MAX),
        }
    }
}

/// The wanted fields of `/proc/self/stat`.
#[derive(Debug, Default, PartialEq)]
struct Stat {
    /// In ticks.
    time: u64,
    /// Bytes.
    virtual_memory: u64,
    resident_pages: u64,
}

impl Stat {
    /// The name of the program, in parentheses, may have any characters; the fields after it are numbered from 3 (proc_pid_stat(5)).
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
        Some(Self {
            time: number(14)? + number(15)?,
            virtual_memory: number(23)?,
            resident_pages: number(24)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_after_any_name() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 0 0 20 0 1 0 999 8192000 300 18446744073709551615 1 1";
        assert_eq!(
            Stat::parse(text),
            Some(Stat { time: 400, virtual_memory: 8_192_000, resident_pages: 300 })
        );
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_is_read() {
        let usage = ProcessUsage::read(Path::new("/proc"));
        assert!(usage.resident_memory > 1 << 20 && usage.virtual_memory > usage.resident_memory, "{usage:?}");
        assert!(usage.open_files > 2 && usage.max_open_files > usage.open_files, "{usage:?}");
        assert!(usage.cpu_seconds >= 0.0);
    }
}

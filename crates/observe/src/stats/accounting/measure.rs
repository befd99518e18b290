//! What a cgroup uses, in as much detail as is asked for.

use jiff::Timestamp;

use super::files::Reader;
use super::open_files::open_files;
use super::{v1, v2};
use crate::stats::parse;
use crate::stats::usage::{CgroupProcesses, CgroupUsage, Detail};
use hostlet_host::cgroup::CgroupVersion;

impl Reader<'_> {
    /// What the cgroup at `path` below the mounts uses; `None` if it does not exist.
    pub(crate) fn read(&mut self, path: &str, detail: Detail, now: Timestamp) -> Option<CgroupUsage> {
        let created_at = self.enter(path)?;
        let mut usage = CgroupUsage { at: now, created_at, ..CgroupUsage::default() };
        match self.accounting().version {
            CgroupVersion::V1 => v1::read(self, &mut usage),
            CgroupVersion::V2 => v2::read(self, &mut usage),
        }
        usage.memory.working_set = usage.memory.usage.saturating_sub(usage.memory.inactive_file);
        match detail {
            Detail::Node | Detail::CpuAndMemory => {}
            Detail::Summary => self.read_for_summary(&mut usage, detail),
            Detail::All => {
                self.read_for_summary(&mut usage, detail);
                match self.accounting().version {
                    CgroupVersion::V1 => v1::read_rest(self, &mut usage),
                    CgroupVersion::V2 => v2::read_rest(self, &mut usage),
                }
                self.read_limits_of_processes(&mut usage.processes);
            }
        }
        Some(usage)
    }

    /// What a summary has beyond CPU and memory.
    fn read_for_summary(&mut self, usage: &mut CgroupUsage, detail: Detail) {
        match self.accounting().version {
            CgroupVersion::V1 => {}
            CgroupVersion::V2 => usage.io.pressure = v2::pressure(self, "io.pressure"),
        }
        let pids = self.processes();
        // A process of another PID namespace has the number 0.
        let first = pids.first().copied().filter(|pid| *pid != 0);
        let processes = u64::try_from(pids.len()).unwrap_or(u64::MAX);
        usage.processes = CgroupProcesses { processes, first, ..CgroupProcesses::default() };
        if detail == Detail::All {
            let open = open_files(self.proc(), &pids);
            (usage.processes.descriptors, usage.processes.sockets) = (open.descriptors, open.sockets);
        }
    }

    /// The processes of the cgroup itself.
    fn processes(&mut self) -> Vec<u32> {
        let list = self.text(self.accounting().memory.as_deref(), "cgroup.procs").unwrap_or_default();
        list.lines().map(|pid| pid.parse().unwrap_or_default()).collect()
    }

    /// The limit of open files of the cgroup's first process, and the cgroup's threads.
    fn read_limits_of_processes(&mut self, usage: &mut CgroupProcesses) {
        let limits = usage.first.and_then(|pid| self.proc_text(&format!("{pid}/limits")));
        usage.open_files_limit = limits.and_then(parse::open_files_limit);
        let pids = self.accounting().pids.as_deref();
        usage.threads = self.number(pids, "pids.current").unwrap_or_default();
        usage.threads_max = self.limit(pids, "pids.max").unwrap_or_default();
    }
}

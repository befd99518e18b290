//! Processes that the kernel killed because the host, not a container, had no memory left: reads its reports. Pure.

use hostlet_base::node::NodeEvent;

/// Upstream's reason.
pub(super) const SYSTEM_OOM: &str = "SystemOOM";

/// Upstream's event.
pub(super) fn oom_event(kill: &OomKill) -> NodeEvent {
    let OomKill { process, pid, .. } = kill;
    NodeEvent::warning(SYSTEM_OOM, format!("System OOM encountered, victim process: {process}, pid: {pid}"))
}

/// A process that the kernel killed for lack of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// Name of the process as the kernel logs it, at most 15 bytes.
    pub process: String,
    /// PID of the killed process, in the initial namespace.
    pub pid: u32,
    /// The cgroup that reached its limit; `None` if the host did.
    pub limited: Option<String>,
}

impl OomKill {
    /// Whether the host had no memory left.
    pub(super) fn is_for_host(&self) -> bool {
        self.limited.as_deref().is_none_or(|group| group == "/")
    }
}

/// Recognizes the kernel's reports of kills, which are several messages each (`mm/oom_kill.c` of Linux).
#[derive(Debug, Default)]
pub enum OomReports {
    /// No report has begun.
    #[default]
    None,
    /// A report has begun, and this is what it said so far.
    Begun {
        /// The cgroup that reached its limit.
        limited: Option<String>,
    },
}

impl OomReports {
    /// Takes the next message, and returns the kill if that is complete.
    pub fn read(&mut self, line: &str) -> Option<OomKill> {
        if line.contains("invoked oom-killer:") {
            *self = Self::Begun { limited: None };
            return None;
        }
        let Self::Begun { limited } = self else { return None };
        if let Some((_, group)) = line.split_once(" killed as a result of limit of ") {
            // Before Linux 5.0.
            *limited = Some(group.trim().to_owned());
            return None;
        }
        let kill = summary(line).or_else(|| {
            let (process, pid) = victim(line)?;
            Some(OomKill { process, pid, limited: limited.take() })
        })?;
        *self = Self::None;
        Some(kill)
    }
}

/// Reads the summary of a kill because of a cgroup's limit. The summary of a kill because of the host has `global_oom` instead of the cgroup.
fn summary(line: &str) -> Option<OomKill> {
    let (_, line) = line.split_once("oom-kill:constraint=")?;
    let (_, line) = line.split_once(",oom_memcg=")?;
    let (limited, line) = line.split_once(",task_memcg=")?;
    // Names of cgroups and processes may have commas.
    let (line, _) = line.rsplit_once(",uid=")?;
    let (line, pid) = line.rsplit_once(",pid=")?;
    let (_, process) = line.split_once(",task=")?;
    Some(OomKill { process: process.to_owned(), pid: pid.parse().ok()?, limited: Some(limited.to_owned()) })
}

/// Reads the message about the killed process.
fn victim(line: &str) -> Option<(String, u32)> {
    let (_, line) = line.split_once("Killed process ")?;
    let (pid, line) = line.split_once(" (")?;
    let (process, _) = line.rsplit_once(')')?;
    Some((process.to_owned(), pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kills(lines: &[&str]) -> Vec<(String, u32, bool)> {
        let mut reports = OomReports::default();
        let kills = lines.iter().filter_map(|line| reports.read(line));
        kills.map(|kill| (kill.process.clone(), kill.pid, kill.is_for_host())).collect()
    }

    const HOST: [&str; 5] = [
        "stress invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        "CPU: 1 PID: 4242 Comm: stress Not tainted 6.18.44 #1",
        "Mem-Info:",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=stress,pid=4242,uid=0",
        "Out of memory: Killed process 4242 (stress) total-vm:8392912kB, anon-rss:8000000kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:16kB oom_score_adj:0",
    ];

    #[test]
    fn a_kill_because_of_the_host_is_recognized() {
        assert_eq!(kills(&HOST), [("stress".to_owned(), 4242, true)]);
        // The end of a report whose begin was before the daemon started.
        assert_eq!(kills(&HOST[1..]), []);
        let twice = [HOST[0], HOST[1], HOST[0], HOST[4], HOST[4]];
        assert_eq!(kills(&twice).len(), 1);
    }

    #[test]
    fn a_kill_because_of_a_limit_is_none_of_the_host() {
        let summary = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=a,pid=b (c),pid=77,uid=0";
        let victim = "Memory cgroup out of memory: Killed process 77 (a,pid=b (c)) total-vm:1kB, UID:0";
        assert_eq!(kills(&[HOST[0], summary, victim]), [("a,pid=b (c)".to_owned(), 77, false)]);
        let root = summary.replace("oom_memcg=/kubepods/pod1,", "oom_memcg=/,");
        assert_eq!(kills(&[HOST[0], &root]), [("a,pid=b (c)".to_owned(), 77, true)]);
        let old = "Task in /kubepods/pod1/c killed as a result of limit of /kubepods/pod1";
        let killed = "Killed process 78 (sh) total-vm:1kB, anon-rss:1kB";
        assert_eq!(kills(&[HOST[0], old, killed]), [("sh".to_owned(), 78, false)]);
    }

    #[test]
    fn other_messages_are_none() {
        for line in [
            "",
            "Killed process",
            "Killed process x (y)",
            "oom-kill:constraint=,oom_memcg=,task_memcg=,task=",
        ] {
            assert_eq!(kills(&[HOST[0], line]), [], "{line}");
        }
    }
}

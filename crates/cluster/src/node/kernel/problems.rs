//! Recognizes problems in the messages of the kernel, one message after the other. Pure.

use hostlet_base::node::NodeEvent;
use hostlet_base::one_line;

use super::conditions::KernelCondition;
use super::oom::{OomKill, OomReports, SYSTEM_OOM, oom_event};
use super::rules::Rules;

/// Bytes of a message in an event. The API server takes 1024.
const MAX_MESSAGE: usize = 1000;

/// A problem that the kernel logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelProblem {
    /// The reason of its event, e.g. `TaskHung`.
    pub reason: &'static str,
    /// One line: the kernel's message, or upstream's words.
    pub message: String,
    /// The condition that holds from now on.
    pub condition: Option<KernelCondition>,
}

impl KernelProblem {
    /// The event about it.
    pub(super) fn event(&self) -> NodeEvent {
        NodeEvent::warning(self.reason, self.message.clone())
    }
}

/// Recognizes problems; some take several messages.
#[derive(Debug)]
pub struct KernelProblems {
    rules: Rules,
    kills: OomReports,
}

impl Default for KernelProblems {
    fn default() -> Self {
        Self { rules: Rules::new(), kills: OomReports::default() }
    }
}

impl KernelProblems {
    /// Takes the next message, and returns the problem that it completes. As upstream, messages that a process with access to the log wrote
    /// there count as the kernel's.
    pub fn read(&mut self, message: &str) -> Option<KernelProblem> {
        if let Some(kill) = self.kills.read(message).filter(OomKill::is_for_host) {
            let message = one_line(&oom_event(&kill).message, MAX_MESSAGE);
            return Some(KernelProblem { reason: SYSTEM_OOM, message, condition: None });
        }
        let rule = self.rules.find(message)?;
        let message = one_line(message, MAX_MESSAGE);
        Some(KernelProblem { reason: rule.reason, message, condition: rule.condition })
    }

    /// Forgets what was only read in part.
    pub(super) fn restart(&mut self) {
        self.kills = OomReports::default();
    }

    /// All reasons that a problem can have.
    pub(super) fn reasons() -> impl Iterator<Item = &'static str> {
        std::iter::once(SYSTEM_OOM).chain(Rules::reasons())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reasons(messages: &[&str]) -> Vec<&'static str> {
        let mut problems = KernelProblems::default();
        messages.iter().filter_map(|message| problems.read(message)).map(|problem| problem.reason).collect()
    }

    const INVOKED: &str =
        "stress invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0";

    #[test]
    fn a_kill_is_one_problem_of_the_host_or_of_a_container() {
        let host = [
            INVOKED,
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=stress,pid=4242,uid=0",
            "Out of memory: Killed process 4242 (stress) total-vm:8392912kB, anon-rss:8000000kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:16kB oom_score_adj:0",
            "oom_reaper: reaped process 4242 (stress), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        ];
        assert_eq!(reasons(&host), ["SystemOOM"]);
        let container = [
            INVOKED,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=sh,pid=77,uid=0",
            "Memory cgroup out of memory: Killed process 77 (sh) total-vm:1036kB, anon-rss:160kB, file-rss:52kB, shmem-rss:0kB, UID:0 pgtables:40kB oom_score_adj:985",
        ];
        assert_eq!(reasons(&container), ["OOMKilling"]);
        let mut problems = KernelProblems::default();
        let found = host.iter().find_map(|message| problems.read(message)).unwrap();
        let event =
            NodeEvent::warning("SystemOOM", "System OOM encountered, victim process: stress, pid: 4242");
        assert_eq!(found.event(), event);
        problems.read(INVOKED);
        problems.restart();
        assert_eq!(problems.read(host[2]), None, "the end of a report that was not read from its begin");
    }

    proptest! {
        #[test]
        fn any_message_is_a_short_line_or_no_problem(before in "\\PC*", after in ".*", which in 0..4usize) {
            let known = ["EXT4-fs error ", "Remounting filesystem read-only", INVOKED, "Killed process 7 ("][which];
            let mut problems = KernelProblems::default();
            for message in [format!("{before}{known}{after}"), after.repeat(100)] {
                if let Some(problem) = problems.read(&message) {
                    prop_assert!(problem.message.len() <= MAX_MESSAGE + 16, "{}", problem.message.len());
                    prop_assert!(!problem.message.contains(char::is_control));
                    prop_assert!(KernelProblems::reasons().any(|reason| reason == problem.reason));
                }
            }
        }
    }
}

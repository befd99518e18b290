//! Troubles of this host that more special rules may take for something else, and the steps that failed for a cause nobody
//! knows.

use super::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        &["cannot allocate memory"],
        "this host is out of memory",
        "see what uses it (free -m), and stop something or lower what pods may use; hostlet goes on by itself",
    ),
    rule(
        &["resource temporarily unavailable"],
        "this host may start no more processes",
        "see how many there are (ps -e | wc -l), and raise the limit that is met (sysctl kernel.pid_max, kernel.threads-max, \
         TasksMax of the service containerd); hostlet goes on by itself",
    ),
    rule(
        &["read-only file system"],
        "a file system of this host can only be read",
        "see what the kernel says of its disks (journalctl -k): one with errors is mounted read-only",
    ),
    rule(
        &["context deadline exceeded"],
        "the container runtime takes too long to do it",
        "see what holds it up: its log (journalctl -u containerd), the load of this host (uptime) and of its disks (iostat); \
         hostlet goes on by itself",
    ),
];

/// By the step that failed, where its cause is not known.
pub(super) const STEPS: &[Rule] = &[
    rule(
        &["unable to ensure pod container exists"],
        "the pod's cgroup cannot be made",
        "see that the cgroup file system is there and can be written (mount | grep cgroup), and check cgroupRoot and \
         cgroupDriver in the configuration; hostlet goes on by itself",
    ),
    rule(
        &["error making pod data directories"],
        "the pod's directory cannot be made",
        "see that the directory the message names can be written, by root and on a disk that is not read-only; hostlet goes on \
         by itself",
    ),
    rule(
        &["error killing pod"],
        "containers that must end first do not end",
        "see what the message names, and the container runtime's log (journalctl -u containerd); hostlet goes on by itself",
    ),
    rule(
        &["error determining status"],
        "the container runtime does not tell how the pod's containers are",
        "look into the container runtime's log (journalctl -u containerd); hostlet goes on by itself",
    ),
    rule(
        &["setup failed for volume"],
        "a volume cannot be set up",
        "see what the message says of the path it names, on this host; hostlet goes on by itself",
    ),
];

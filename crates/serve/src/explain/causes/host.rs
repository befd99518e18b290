//! Problems of this host, tried after more specific rules, and fallbacks by the failed step for unknown causes.

use hostlet_base::causes::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        &["cannot allocate memory"],
        "this host is out of memory",
        "check what uses it (free -m), and stop something or lower the pods' memory limits; hostlet retries \
         automatically",
    ),
    rule(
        &["resource temporarily unavailable"],
        "this host cannot start more processes",
        "count them (ps -e | wc -l), and raise the limit that is reached (sysctl kernel.pid_max, kernel.threads-max, \
         TasksMax of the containerd service); hostlet retries automatically",
    ),
    rule(
        &["read-only file system"],
        "a file system of this host is read-only",
        "check the kernel log for disk errors (journalctl -k), which make a file system read-only",
    ),
    rule(
        &["context deadline exceeded"],
        "the container runtime takes too long to do it",
        "check its log (journalctl -u containerd), and the load of this host (uptime) and its disks (iostat); \
         hostlet retries automatically",
    ),
];

/// Fallbacks by the failed step.
pub(super) const STEPS: &[Rule] = &[
    rule(
        &["unable to ensure pod container exists"],
        "the pod's cgroup cannot be created",
        "check that the cgroup file system is mounted and writable (mount | grep cgroup), and check cgroupRoot and \
         cgroupDriver in the configuration; hostlet retries automatically",
    ),
    rule(
        &["error making pod data directories"],
        "the pod's directory cannot be created",
        "check that the directory in the message is writable by root and not on a read-only disk; hostlet \
         retries automatically",
    ),
    rule(
        &["error killing pod"],
        "containers that must stop first do not stop",
        "check the message and the container runtime's log (journalctl -u containerd); hostlet retries automatically",
    ),
    rule(
        &["error determining status"],
        "the container runtime does not report the state of the pod's containers",
        "check the container runtime's log (journalctl -u containerd); hostlet retries automatically",
    ),
    rule(
        &["setup failed for volume"],
        "a volume cannot be set up",
        "check the path in the message on this host; hostlet retries automatically",
    ),
];

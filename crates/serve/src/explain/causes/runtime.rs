//! Failures of the container runtime itself, independent of the request.

use hostlet_base::causes::{Rule, rule};

const LOG: &str =
    "check the container runtime's log (journalctl -u containerd); hostlet retries automatically";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["the container runtime does not answer at"],
        "the container runtime is not running",
        "start it (systemctl start containerd) and check its log (journalctl -u containerd); if it listens \
         elsewhere, correct \
         containerRuntimeEndpoint in the configuration",
    ),
    rule(
        &["not implemented by this container runtime"],
        "the container runtime runs without its CRI plugin",
        "check why it is not loaded (ctr plugins ls | grep cri, and containerd's log); disabled_plugins in \
         /etc/containerd/config.toml must not contain cri; then restart containerd",
    ),
    rule(
        &[": no answer within"],
        "the container runtime takes too long to answer",
        "check its log (journalctl -u containerd), and the load of this host (uptime) and its disks (iostat); \
         hostlet checks the outcome of the call and retries automatically",
    ),
    rule(
        &["unable to retrieve oci runtime error", "executable file not found"],
        "the container runtime cannot find runc",
        "install runc, or correct BinaryName in containerd's configuration (/etc/containerd/config.toml)",
    ),
    rule(
        &["unable to retrieve oci runtime error"],
        "runc failed without an error message",
        "run it by hand to find out why (runc --version), and check the container runtime's log (journalctl -u \
         containerd)",
    ),
    rule(
        &["failed to resolve runtime path"],
        "the container runtime has no shim for this kind of container",
        "install the program in the message, or correct runtime_type in containerd's configuration \
         (/etc/containerd/config.toml)",
    ),
    rule(
        &["no runtime for", "is configured"],
        "the container runtime has no such runtime handler",
        "add the handler in the message to containerd's configuration (/etc/containerd/config.toml, \
         containerd.runtimes), and restart containerd",
    ),
    rule(
        &["expected cgroupspath to be of format", "systemd"],
        "hostlet and the container runtime do not use the same cgroup driver",
        "set cgroupDriver: systemd in hostlet's configuration, or SystemdCgroup = false in containerd's \
         (/etc/containerd/config.toml), and restart the one you changed",
    ),
    rule(
        &["slice", "dbus"],
        "systemd, which creates the cgroups, cannot be reached",
        "check that systemd manages this host and D-Bus responds (systemctl status dbus), or set cgroupDriver: \
         cgroupfs in \
         hostlet's configuration and SystemdCgroup = false in containerd's",
    ),
    rule(
        &["failed to reserve", "name"],
        "the container runtime is still processing an earlier attempt with the same name",
        "wait: hostlet uses its result or retries; if it lasts, check the container runtime's log \
         (journalctl -u containerd)",
    ),
    rule(&["ttrpc: closed"], "the container's shim process exited", LOG),
    rule(&["shim", "connection refused"], "the container's shim process exited", LOG),
    rule(&["shim", "disconnected"], "the container's shim process exited", LOG),
    rule(&["transport is closing"], "the container runtime stopped in the meantime", LOG),
    rule(&["server is not initialized yet"], "the container runtime is still starting", LOG),
    rule(
        &["the volume is in memory", "no space left on device"],
        "a volume in memory is too small for its files",
        "raise limits.memory of the pod's containers: Secrets, tokens and other volumes in memory are at most as large",
    ),
    rule(
        &["no space left on device"],
        "a disk of this host is full",
        "free space: df -h shows which disk, and df -i whether it has run out of inodes; images and containers \
         are below \
         /var/lib/containerd, pods' volumes and logs below /var/lib/kubelet and /var/log/pods; hostlet retries automatically",
    ),
    rule(
        &["disk quota exceeded"],
        "a disk quota of this host is used up",
        "free space, or raise the quota of the directory in the message; hostlet retries automatically",
    ),
    rule(
        &["too many open files"],
        "the container runtime or this host cannot open more files",
        "raise LimitNOFILE of the containerd service, or the host's limits (sysctl fs.file-max, \
         fs.inotify.max_user_instances); then restart containerd",
    ),
    rule(
        &["input/output error"],
        "a disk of this host has I/O errors",
        "check the kernel log for disk errors (journalctl -k)",
    ),
];

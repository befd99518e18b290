//! The container runtime itself does not work as it should, whatever it was asked for.

use super::rule::{Rule, rule};

const LOG: &str =
    "look into the container runtime's log (journalctl -u containerd); hostlet goes on by itself";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["the container runtime does not answer at"],
        "the container runtime is not running",
        "start it (systemctl start containerd) and see its log (journalctl -u containerd); if it listens elsewhere, correct \
         containerRuntimeEndpoint in the configuration",
    ),
    rule(
        &["not implemented by this container runtime"],
        "the container runtime runs without its Kubernetes part (the CRI plugin)",
        "see why it is not loaded (ctr plugins ls | grep cri): containerd's own log tells, and disabled_plugins in \
         /etc/containerd/config.toml must not name cri; then restart containerd",
    ),
    rule(
        &[": no answer within"],
        "the container runtime takes too long to answer",
        "see what holds it up: its log (journalctl -u containerd), the load of this host (uptime) and of its disks (iostat); \
         hostlet looks what came of the call and goes on by itself",
    ),
    rule(
        &["unable to retrieve oci runtime error", "executable file not found"],
        "the container runtime cannot find runc",
        "install runc, or correct BinaryName in containerd's configuration (/etc/containerd/config.toml)",
    ),
    rule(
        &["unable to retrieve oci runtime error"],
        "runc, which containers are made with, ended without a word",
        "run it by hand to see why (runc --version), and look into the container runtime's log (journalctl -u containerd)",
    ),
    rule(
        &["failed to resolve runtime path"],
        "the container runtime has no program for this kind of container (a shim)",
        "install the program that the message names, or correct runtime_type in containerd's configuration \
         (/etc/containerd/config.toml)",
    ),
    rule(
        &["no runtime for", "is configured"],
        "the container runtime is not configured for this kind of container (its runtime handler)",
        "add the handler that the message names to containerd's configuration (/etc/containerd/config.toml, \
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
        "systemd, which is to make the cgroups, cannot be reached",
        "see that systemd runs this host and D-Bus answers (systemctl status dbus), or set cgroupDriver: cgroupfs in \
         hostlet's configuration and SystemdCgroup = false in containerd's",
    ),
    rule(
        &["failed to reserve", "name"],
        "the container runtime still works on an earlier attempt of the same name",
        "wait: hostlet takes over what comes of it, or tries again; should it last, see the container runtime's log \
         (journalctl -u containerd)",
    ),
    rule(&["ttrpc: closed"], "the container runtime's helper process (its shim) ended", LOG),
    rule(&["shim", "connection refused"], "the container runtime's helper process (its shim) ended", LOG),
    rule(&["shim", "disconnected"], "the container runtime's helper process (its shim) ended", LOG),
    rule(&["transport is closing"], "the container runtime ended meanwhile", LOG),
    rule(&["server is not initialized yet"], "the container runtime is still starting", LOG),
    rule(
        &["no space left on device"],
        "a disk of this host is full",
        "make room: df -h tells which disk, and df -i whether it has run out of files; images and containers are below \
         /var/lib/containerd, pods' volumes and logs below /var/lib/kubelet and /var/log/pods; hostlet goes on by itself",
    ),
    rule(
        &["disk quota exceeded"],
        "a disk quota of this host is used up",
        "make room, or raise the quota of the directory that the message names; hostlet goes on by itself",
    ),
    rule(
        &["too many open files"],
        "the container runtime, or this host, may open no more files",
        "raise LimitNOFILE of the service containerd, or the host's limits (sysctl fs.file-max, \
         fs.inotify.max_user_instances); then restart containerd",
    ),
    rule(
        &["input/output error"],
        "a disk of this host fails",
        "see what the kernel says of its disks (journalctl -k)",
    ),
];

//! What keeps a pod's sandbox from being made or taken down: its network, its pause image, its settings.

use super::rule::{Rule, rule};

const PODS_LIMIT: &str = "raise resources.limits.memory of its containers: the limit is of the whole pod, and the sandbox needs \
     some megabytes of it (say 16Mi)";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["cni plugin not initialized"],
        "this node has no pod network yet",
        "put a CNI configuration into /etc/cni/net.d (or where conf_dir in containerd's configuration says), for example that \
         of the network you chose for the cluster; hostlet goes on by itself",
    ),
    rule(
        &["failed to find plugin"],
        "a program of the pod network is not installed",
        "install the CNI plugin that the message names into one of the directories it names (the usual ones are in the \
         package containernetworking-plugins); hostlet goes on by itself",
    ),
    rule(
        &["no ip addresses available"],
        "the pod network has no free address",
        "remove pods, or give the network a larger subnet in its CNI configuration (/etc/cni/net.d); addresses of pods that \
         are long gone are in /var/lib/cni/networks",
    ),
    rule(
        &["already has an ip address different from"],
        "the bridge of the pod network has the address of an earlier configuration",
        "remove the bridge that the message names (ip link delete NAME) once no pod uses it; it is made anew",
    ),
    rule(
        &["subnet.env", "no such file"],
        "flannel, this node's pod network, does not run yet",
        "see why the pod of flannel on this node does not run; hostlet goes on by itself",
    ),
    rule(
        &["/var/lib/calico/nodename"],
        "Calico, this node's pod network, does not run yet",
        "see why the pod calico-node on this node does not run; hostlet goes on by itself",
    ),
    rule(
        &["cilium agent"],
        "Cilium, this node's pod network, does not run yet",
        "see why the pod cilium on this node does not run; hostlet goes on by itself",
    ),
    rule(
        &["failed to locate iptables"],
        "a program that the pod network needs is not installed: iptables",
        "install iptables on this host; hostlet goes on by itself",
    ),
    rule(
        &["hostport", "address already in use"],
        "a hostPort of the pod is used by something else on this host",
        "see what uses it (ss -ltnp), or change hostPort in the manifest",
    ),
    rule(
        &["failed to setup network for sandbox"],
        "the pod network could not be set up",
        "see which plugin the message names and what it says; its configuration is in /etc/cni/net.d, its program in \
         /opt/cni/bin; hostlet goes on by itself",
    ),
    rule(
        &["failed to destroy network for sandbox"],
        "the pod network could not be taken down",
        "see which plugin the message names and what it says: a network that was reconfigured or removed must be able to \
         take down what it once set up; hostlet goes on by itself",
    ),
    rule(
        &["network namespace"],
        "the pod's network namespace could not be made",
        "see that containerd runs as root with all capabilities, and that /run/netns can be written",
    ),
    rule(
        &["failed to get sandbox image"],
        "the container runtime cannot get the image of its pause container",
        "put an archive with the image that the message names into imagePreloadDir, or name one that this node has: \
         sandbox_image in containerd's configuration, from containerd 2 on pinned_images.sandbox",
    ),
    rule(
        &["oom-killed (memory limit too low"],
        "the pod's memory limit is too low for its sandbox",
        PODS_LIMIT,
    ),
    rule(
        &["cannot start a stopped process"],
        "the sandbox was killed before it could start; mostly the pod's memory limit is too low",
        PODS_LIMIT,
    ),
    rule(
        &["cgroup", "cannot allocate memory"],
        "the pod's memory limit is too low for its sandbox",
        PODS_LIMIT,
    ),
    rule(
        &["failed to construct fqdn"],
        "the pod's name and its domain are too long together for a host name",
        "give the pod a shorter name or hostname, or remove setHostnameAsFQDN",
    ),
    rule(
        &["sethostname"],
        "the kernel refuses the pod's host name",
        "set a hostname of at most 63 letters, digits and hyphens in the manifest",
    ),
    rule(
        &["hostusers"],
        "hostlet does not give pods a user namespace",
        "remove hostUsers: false from the manifest",
    ),
    rule(
        &["resolv"],
        "the host's resolv.conf cannot be read",
        "correct resolvConf in the configuration, or set dnsPolicy: None with dnsConfig in the manifest",
    ),
];

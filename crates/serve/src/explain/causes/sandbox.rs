//! Causes why a pod's sandbox cannot be created or removed: network, pause image and settings.

use hostlet_base::causes::{Rule, rule};

const PODS_LIMIT: &str = "raise resources.limits.memory of its containers: the limit applies to the whole pod, and the sandbox needs some of it (e.g. 16Mi)";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["cni plugin not initialized"],
        "this node has no pod network yet",
        "put a CNI configuration into /etc/cni/net.d (or conf_dir in containerd's configuration), for example \
         that of the cluster's network; hostlet retries automatically",
    ),
    rule(
        &["failed to find plugin"],
        "a CNI plugin of the pod network is not installed",
        "install the CNI plugin in the message into one of the listed directories (the usual ones are in the \
         package containernetworking-plugins); hostlet retries automatically",
    ),
    rule(
        &["no ip addresses available"],
        "the pod network has no free address",
        "remove pods, or give the network a larger subnet in its CNI configuration (/etc/cni/net.d); leaked \
         addresses of removed pods are in /var/lib/cni/networks",
    ),
    rule(
        &["already has an ip address different from"],
        "the bridge of the pod network has the address of an earlier configuration",
        "remove the bridge in the message (ip link delete NAME) once no pod uses it; it is created again",
    ),
    rule(
        &["subnet.env", "no such file"],
        "flannel, this node's pod network, is not running yet",
        "check why the flannel pod on this node is not running; hostlet retries automatically",
    ),
    rule(
        &["/var/lib/calico/nodename"],
        "Calico, this node's pod network, is not running yet",
        "check why the calico-node pod on this node is not running; hostlet retries automatically",
    ),
    rule(
        &["cilium agent"],
        "Cilium, this node's pod network, is not running yet",
        "check why the cilium pod on this node is not running; hostlet retries automatically",
    ),
    rule(
        &["failed to locate iptables"],
        "a program that the pod network needs is not installed: iptables",
        "install iptables on this host; hostlet retries automatically",
    ),
    rule(
        &["hostport", "address already in use"],
        "a hostPort of the pod is used by something else on this host",
        "find out what uses it (ss -ltnp), or change hostPort in the manifest",
    ),
    rule(
        &["failed to setup network for sandbox"],
        "the pod network could not be set up",
        "check the plugin and its error in the message; its configuration is in /etc/cni/net.d, its program in \
         /opt/cni/bin; hostlet retries automatically",
    ),
    rule(
        &["failed to destroy network for sandbox"],
        "the pod network could not be torn down",
        "check the plugin and its error in the message: after a change of configuration, a network must still \
         be able to tear down what it set up; hostlet retries automatically",
    ),
    rule(
        &["network namespace"],
        "the pod's network namespace could not be created",
        "check that containerd runs as root with all capabilities, and that /run/netns is writable",
    ),
    rule(
        &["failed to get sandbox image"],
        "the container runtime cannot pull its pause image",
        "put an archive with the image in the message into imagePreloadDir, or configure one that this node has: \
         sandbox_image in containerd's configuration, from containerd 2 on pinned_images.sandbox",
    ),
    rule(
        &["oom-killed (memory limit too low"],
        "the pod's memory limit is too low for its sandbox",
        PODS_LIMIT,
    ),
    rule(
        &["cannot start a stopped process"],
        "the sandbox was killed before it could start, usually because the pod's memory limit is too low",
        PODS_LIMIT,
    ),
    rule(
        &["cgroup", "cannot allocate memory"],
        "the pod's memory limit is too low for its sandbox",
        PODS_LIMIT,
    ),
    rule(
        &["failed to construct fqdn"],
        "the pod's name and domain together are too long for a host name",
        "give the pod a shorter name or hostname, or remove setHostnameAsFQDN",
    ),
    rule(
        &["sethostname"],
        "the kernel rejects the pod's host name",
        "set a hostname of at most 63 letters, digits and hyphens in the manifest",
    ),
    rule(
        &["runtimeclass", "not found"],
        "the pod's runtime class does not exist",
        "create the RuntimeClass in the message, or correct runtimeClassName; hostlet retries automatically",
    ),
    rule(
        &["failed to lookup runtimeclass"],
        "the API server has not returned the runtime classes yet",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["hostusers"],
        "the container runtime has no user namespaces for pods",
        "use containerd 2 with runc 1.2 or later on Linux 6.3 or later, or remove hostUsers: false from the manifest",
    ),
    rule(
        &["could not find an empty slot to allocate a user namespace"],
        "all ranges of IDs for pods with hostUsers: false are in use",
        "remove such pods, or give the user kubelet of this host more IDs (/etc/subuid and /etc/subgid) and restart hostlet",
    ),
    rule(
        &["kubelet user assigned"],
        "the IDs of this host's user kubelet do not suffice for pods with hostUsers: false",
        "correct its lines in /etc/subuid and /etc/subgid as the message says; hostlet retries automatically",
    ),
    rule(
        &["kubelet mappings"],
        "the IDs of this host's user kubelet cannot be read",
        "give it one range of IDs, the same in /etc/subuid and /etc/subgid (`getsubids kubelet` shows it), or remove the user; \
         hostlet retries automatically",
    ),
    rule(
        &["user namespace"],
        "the pod's range of IDs cannot be read, stored or used any more",
        "delete the pod, so that its successor gets a new range; the message says what is wrong",
    ),
    rule(
        &["resolv"],
        "the host's resolv.conf cannot be read",
        "correct resolvConf in the configuration, or set dnsPolicy: None with dnsConfig in the manifest",
    ),
];

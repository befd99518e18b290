//! Labels and annotations of pods, sandboxes and containers. An interface: `crictl` and a stock kubelet that replaces hostlet read
//! them.

/// Sandbox and container label: name of the pod.
pub const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";
/// Sandbox and container label: namespace of the pod.
pub const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
/// Sandbox and container label: UID of the pod. Objects without it are not ours.
pub const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// Container label: name of the container in its pod.
pub const CONTAINER_NAME_LABEL: &str = "io.kubernetes.container.name";

/// Container annotation: hash of the fields whose change requires a new container, lower-case hex.
pub const CONTAINER_HASH_ANNOTATION: &str = "io.kubernetes.container.hash";
/// Container annotation: restart count, decimal.
pub const CONTAINER_RESTART_COUNT_ANNOTATION: &str = "io.kubernetes.container.restartCount";
/// Container annotation: path of the termination log in the container.
pub const CONTAINER_TERMINATION_PATH_ANNOTATION: &str = "io.kubernetes.container.terminationMessagePath";
/// Container annotation: `File` or `FallbackToLogsOnError`.
pub const CONTAINER_TERMINATION_POLICY_ANNOTATION: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Container annotation: JSON of the container's preStop handler.
pub const CONTAINER_PRE_STOP_ANNOTATION: &str = "io.kubernetes.container.preStopHandler";
/// Container annotation: JSON of the container's ports.
pub const CONTAINER_PORTS_ANNOTATION: &str = "io.kubernetes.container.ports";
/// Container annotation: the pod's `terminationGracePeriodSeconds`, decimal seconds.
pub const POD_TERMINATION_GRACE_ANNOTATION: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Container annotation: the pod's `deletionGracePeriodSeconds`, decimal seconds.
pub const POD_DELETION_GRACE_ANNOTATION: &str = "io.kubernetes.pod.deletionGracePeriod";

/// Pod annotation: the pod's source (`file`, `http`, `api`).
pub const CONFIG_SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
/// Pod annotation: when the kubelet first saw this version of the pod, RFC 3339 with nanoseconds.
pub const CONFIG_SEEN_ANNOTATION: &str = "kubernetes.io/config.seen";
/// Pod annotation of a static pod: its hash, equal to its UID.
pub const CONFIG_HASH_ANNOTATION: &str = "kubernetes.io/config.hash";
/// Pod annotation of a mirror pod: UID of its static pod.
pub const CONFIG_MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Kubernetes' own node labels, which the kubelet sets and updates.
pub const NODE_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

//! The machine-readable reasons that more than one file writes or matches: of pods, of waiting and terminated containers, of conditions and
//! of events. An interface: users' programs match them, so each is upstream's, from the named file below `pkg/` of Kubernetes. A reason
//! with a single place stays there.

/// A pod that exceeds a limit of storage, or is rejected because the node is short of a resource (`kubelet/eviction/helpers.go`).
pub const EVICTED: &str = "Evicted";
/// A pod that was active for too long, and its event (`kubelet/active_deadline.go`).
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// A pod that makes room for a critical one, and its event (`kubelet/events/event.go`).
pub const PREEMPTING: &str = "Preempting";
/// A pod that a shutdown of the node terminated (`kubelet/nodeshutdown`).
pub const TERMINATED: &str = "Terminated";

// Rejected pods.

/// The node has no room for a volume of a CSI driver (`kubelet/volumemanager`).
pub const VOLUME_ATTACHMENT_LIMIT_EXCEEDED: &str = "VolumeAttachmentLimitExceeded";
/// The node is shutting down (`kubelet/nodeshutdown`).
pub const NODE_SHUTDOWN: &str = "NodeShutdown";
/// Node selector or node affinity do not match; the name of the scheduler's plugin.
pub const NODE_AFFINITY: &str = "NodeAffinity";
/// A host port is taken; the name of the scheduler's plugin.
pub const NODE_PORTS: &str = "NodePorts";
/// Prefix of the name of the resource that is missing (`kubelet/lifecycle/predicate.go`).
pub const OUT_OF: &str = "OutOf";
/// The node has its maximum of pods: [`OUT_OF`] and the resource `pods`.
pub const OUT_OF_PODS: &str = "OutOfpods";
/// What only one pod can have could not be given to it (`kubelet/cm/admission/errors.go`).
pub const UNEXPECTED_ADMISSION_ERROR: &str = "UnexpectedAdmissionError";
/// A field is not supported (`kubelet/lifecycle/handlers.go`).
pub const POD_FEATURE_UNSUPPORTED: &str = "PodFeatureUnsupported";
/// The operating system is not this node's (`kubelet/lifecycle/predicate.go`).
pub const POD_OS_NOT_SUPPORTED: &str = "PodOSNotSupported";
/// The label of the operating system does not match (`kubelet/lifecycle/predicate.go`).
pub const POD_OS_SELECTOR_NODE_LABEL_DOES_NOT_MATCH: &str = "PodOSSelectorNodeLabelDoesNotMatch";
/// The runtime does not support a policy of supplemental groups (`kubelet/lifecycle/predicate.go`).
pub const SUPPLEMENTAL_GROUPS_POLICY_NOT_SUPPORTED: &str = "SupplementalGroupsPolicyNotSupported";
/// A sysctl is not allowed (`kubelet/sysctl/allowlist.go`).
pub const SYSCTL_FORBIDDEN: &str = "SysctlForbidden";
/// AppArmor is not available (`kubelet/lifecycle/handlers.go`).
pub const APP_ARMOR: &str = "AppArmor";

// Waiting containers.

/// The container has not started, in a pod without init containers (`kubelet/kubelet_pods.go`).
pub const CONTAINER_CREATING: &str = "ContainerCreating";
/// The container has not started, in a pod with init containers (`kubelet/kubelet_pods.go`).
pub const POD_INITIALIZING: &str = "PodInitializing";
/// The container waits for its restart (`kubelet/container/sync_result.go`).
pub const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";
/// The configuration cannot be made (`kubelet/kuberuntime/kuberuntime_container.go`).
pub const CREATE_CONTAINER_CONFIG_ERROR: &str = "CreateContainerConfigError";
/// The container cannot be created (`kubelet/kuberuntime/kuberuntime_container.go`).
pub const CREATE_CONTAINER_ERROR: &str = "CreateContainerError";
/// The container cannot be started (`kubelet/container/sync_result.go`).
pub const RUN_CONTAINER_ERROR: &str = "RunContainerError";
/// The postStart hook failed (`kubelet/kuberuntime/kuberuntime_container.go`).
pub const POST_START_HOOK_ERROR: &str = "PostStartHookError";
/// The container was removed because all containers of its pod start again (`kubelet/kubelet_pods.go`).
pub const RESTARTING_ALL_CONTAINERS: &str = "RestartingAllContainers";
/// The image name is invalid (`kubelet/images/types.go`).
pub const INVALID_IMAGE_NAME: &str = "InvalidImageName";
/// The runtime cannot inspect the image (`kubelet/images/types.go`).
pub const IMAGE_INSPECT_ERROR: &str = "ImageInspectError";
/// The image is not here, and must not be pulled; also an event (`kubelet/images/types.go`).
pub const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
/// The pull failed (`kubelet/images/types.go`).
pub const ERR_IMAGE_PULL: &str = "ErrImagePull";
/// The pull waits for its next attempt (`kubelet/images/types.go`).
pub const IMAGE_PULL_BACK_OFF: &str = "ImagePullBackOff";
/// The runtime cannot reach the registry; also the prefix of its error (`cri-api/pkg/errors`).
pub const REGISTRY_UNAVAILABLE: &str = "RegistryUnavailable";
/// The runtime rejects the image's signature; also the prefix of its error (`cri-api/pkg/errors`).
pub const SIGNATURE_VALIDATION_FAILED: &str = "SignatureValidationFailed";

// Terminated containers.

/// Exit code 0 (containerd's CRI plugin, `helpers.go`).
pub const COMPLETED: &str = "Completed";
/// Another exit code (containerd's CRI plugin, `helpers.go`).
pub const ERROR: &str = "Error";
/// The kernel killed a process for the memory limit (containerd's CRI plugin, `helpers.go`).
pub const OOM_KILLED: &str = "OOMKilled";
/// containerd could not start the container (containerd's CRI plugin, `helpers.go`).
pub const START_ERROR: &str = "StartError";
/// Another runtime could not start the container, which has no log (`kubelet/kuberuntime/kuberuntime_container.go`).
pub const CONTAINER_CANNOT_RUN: &str = "ContainerCannotRun";
/// Nobody saw how the container terminated (`kubelet/container/runtime.go`).
pub const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";

// Conditions.

/// `Ready`: only readiness gates are missing (`kubelet/status/generate.go`).
pub const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";
/// `PodResizeInProgress`: the resize failed (`PodReasonError` of core/v1).
pub const RESIZE_ERROR: &str = "Error";

// Events (`kubelet/events/event.go`).

/// A container was started.
pub const STARTED: &str = "Started";
/// A container is being stopped.
pub const KILLING: &str = "Killing";
/// A container or an image waits for its next attempt.
pub const BACK_OFF: &str = "BackOff";
/// An image or a container failed.
pub const FAILED: &str = "Failed";
/// An image is being pulled.
pub const PULLING: &str = "Pulling";
/// An image is here.
pub const PULLED: &str = "Pulled";
/// A pod waits until it can be given devices, CPUs or memory. hostlet's own.
pub const ADMISSION_DELAYED: &str = "AdmissionDelayed";
/// An image cannot be inspected.
pub const INSPECT_FAILED: &str = "InspectFailed";

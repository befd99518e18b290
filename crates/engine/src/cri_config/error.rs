//! Why a sandbox or container cannot be configured.

use hostlet_pod::objects::{ObjectError, ObjectRef};
use hostlet_volume::ContentError;

/// A configuration error. `Display` is shown to the user, with upstream's text if upstream has the error: for a container as the
/// message of `CreateContainerConfigError`, for a sandbox in the event of its failed creation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A hostname or subdomain that is not a valid DNS label.
    #[error("pod {field} {value:?} is not a valid DNS {kind}")]
    InvalidHostname {
        /// The field's name upstream.
        field: &'static str,
        value: String,
        /// `label` or `subdomain`.
        kind: &'static str,
    },
    /// The truncated hostname is empty.
    #[error("hostname for pod {pod:?} was invalid: {hostname:?}")]
    EmptyHostname {
        /// Name of the pod.
        pod: String,
        /// The full hostname.
        hostname: String,
    },
    /// The FQDN is too long for the kernel.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long ({max} characters is the max, {} characters requested)",
        fqdn.len()
    )]
    FqdnTooLong {
        fqdn: String,
        /// Its maximum length.
        max: usize,
    },
    /// A policy the CRI does not know.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    SupplementalGroupsPolicy(String),
    /// A variable in a `subPathExpr` is not set.
    #[error("missing value for {0:?}")]
    SubPathVariable(String),
    /// A `subPathExpr` with this value is absolute.
    #[error("error SubPath `{0}` must not be an absolute path")]
    SubPathAbsolute(String),
    /// A `subPathExpr` with this value leads upwards.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    SubPathBacksteps(String),
    /// A part of a volume could not be mounted. The cause is only logged, as upstream, because it could tell a pod's author about
    /// the host's files.
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}")]
    SubPath { volume: String, container: String },
    /// An unsupported `resourceFieldRef`.
    #[error(transparent)]
    Resource(#[from] ContentError),
    /// An object in the environment is not available.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object in the environment was requested but not received yet.
    #[error("timed out waiting for the {} {:?}", .0.kind, .0.name)]
    ObjectPending(ObjectRef),
    /// An object in the environment lacks the key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    MissingKey {
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Namespace of the pod.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// A command, an argument or a path refers to a variable whose value is not UTF-8, which the CRI requires of them.
    #[error("{0:?} refers to a variable whose value is not UTF-8")]
    NotText(String),
    /// An environment file cannot be read or is invalid. The cause is only logged, as upstream.
    #[error("couldn't parse env file")]
    EnvFile,
    /// An environment file lacks the key.
    #[error("environment variable key {key:?} not found in file {path:?}")]
    EnvFileKey {
        key: String,
        /// The file on the host.
        path: String,
    },
    /// The volume of an environment file is not mounted.
    #[error("cannot find the volume {0:?} referenced by FileKeyRef")]
    EnvFileVolume(String),
    /// The Services are not known yet.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    ServicesUnknown,
    /// An environment variable with an unsupported source.
    #[error("environment variable {variable:?}: {kind} is not supported")]
    EnvSource {
        /// Name of the variable.
        variable: String,
        /// The field of `valueFrom`.
        kind: &'static str,
    },
    /// A `fieldRef` that the downward API does not support.
    #[error("field label not supported: {0}")]
    FieldPath(String),
    /// A `fieldRef` with a key to a field that is not a map.
    #[error("field label does not support subscript: {0}")]
    FieldSubscript(String),
    /// A `fieldRef` to the host's address, which is not known yet.
    #[error("the node has no address")]
    NoHostAddress,
    /// A volume mount without its volume.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    MissingVolume {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// A block device without its volume.
    #[error("cannot find volume {volume:?} to pass into container {container:?}")]
    MissingDevice {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// The path of a block device in its container is relative.
    #[error("error DevicePath `{0}` must be an absolute path")]
    DevicePath(String),
    /// A mount of this volume must be read-only with its submounts.
    #[error("volume {0:?} requested recursive read-only mode, but it is not supported by the runtime")]
    RecursiveReadOnly(String),
    /// `runAsNonRoot` with `runAsUser: 0`.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunAsUserIsRoot {
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot`, but the image runs as root.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageIsRoot {
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot`, but the image has a user name, which only the image can resolve.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserNotNumeric {
        user: String,
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot`, but the image's UID is invalid.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({max})): must be between 0 and {max}, inclusive (pod: {pod:?}, container: {container})",
        max = i32::MAX
    )]
    ImageUserInvalid {
        /// The user ID.
        uid: i64,
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// A seccomp profile of type `Localhost` without its file.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    SeccompProfileMissing,
    /// An AppArmor profile of type `Localhost` without its name.
    #[error("missing localhost apparmor profile name")]
    AppArmorProfileMissing,
    /// An AppArmor profile of unknown type.
    #[error("unknown apparmor profile type: {0:?}")]
    AppArmorProfileType(String),
}

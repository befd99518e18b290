//! Why a sandbox or container cannot be configured as its pod asks.

use crate::objects::{ObjectError, ObjectRef};
use crate::volume::ContentError;

/// A pod that cannot be configured. `Display` is what the pod's owner sees, in upstream's words where upstream has the
/// error: of a container as message of `CreateContainerConfigError`, of a sandbox in the event of its failed creation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A hostname or subdomain that DNS does not allow.
    #[error("pod {field} {value:?} is not a valid DNS {kind}")]
    InvalidHostname {
        /// The field, as upstream names it.
        field: &'static str,
        /// What it holds.
        value: String,
        /// `label` or `subdomain`.
        kind: &'static str,
    },
    /// Cutting the hostname to its maximum left nothing.
    #[error("hostname for pod {pod:?} was invalid: {hostname:?}")]
    EmptyHostname {
        /// Name of the pod.
        pod: String,
        /// The hostname before cutting.
        hostname: String,
    },
    /// The fully qualified name does not fit the kernel's field.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long ({max} characters is the max, {} characters requested)",
        fqdn.len()
    )]
    FqdnTooLong {
        /// The name.
        fqdn: String,
        /// How long it may be.
        max: usize,
    },
    /// `hostUsers: false`, which hostlet cannot give yet; running the pod as if it were true would weaken it.
    #[error("user namespaces are not supported: hostUsers must not be false")]
    UserNamespaces,
    /// A policy the CRI does not know.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    SupplementalGroupsPolicy(String),
    /// A resource of the container cannot be shown.
    #[error(transparent)]
    Resource(#[from] ContentError),
    /// An object that an environment variable is made from cannot be had.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object that an environment variable is made from was asked for and has not come yet.
    #[error("timed out waiting for the {} {:?}", .0.kind, .0.name)]
    ObjectPending(ObjectRef),
    /// An object without a key that an environment variable is made from.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    MissingKey {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Namespace of the pod.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// A value that is no text, while the runtime takes no other.
    #[error(
        "the value of key {key} in Secret {namespace}/{name} is not UTF-8 and cannot be put into the environment"
    )]
    NotText {
        /// The key.
        key: String,
        /// Namespace of the pod.
        namespace: String,
        /// The Secret.
        name: String,
    },
    /// What is said of services is not known yet.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    ServicesUnknown,
    /// An environment variable from a source hostlet does not serve.
    #[error("environment variable {variable:?}: {kind} is not supported")]
    EnvSource {
        /// Name of the variable.
        variable: String,
        /// Which field of `valueFrom`.
        kind: &'static str,
    },
    /// A `fieldRef` to a field that the downward API does not have.
    #[error("field label not supported: {0}")]
    FieldPath(String),
    /// A `fieldRef` with a key to a field that is not a map.
    #[error("field label does not support subscript: {0}")]
    FieldSubscript(String),
    /// A `fieldRef` to the host's address before it has one.
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
    /// `runAsNonRoot` with `runAsUser: 0`.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunAsUserIsRoot {
        /// The pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot`, and the image runs as root.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageIsRoot {
        /// The pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot`, and the image names a user that only the image can resolve.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserNotNumeric {
        /// The user.
        user: String,
        /// The pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot`, and the image's user is no user ID.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({max})): must be between 0 and {max}, inclusive (pod: {pod:?}, container: {container})",
        max = i32::MAX
    )]
    ImageUserInvalid {
        /// The user ID.
        uid: i64,
        /// The pod.
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

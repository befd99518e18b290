//! Causes of CreateContainerConfigError. The messages are hostlet's own, worded like upstream's.

use hostlet_base::causes::{Rule, rule};

const NOT_ROOT: &str = "set securityContext.runAsUser to a user other than 0, or remove runAsNonRoot";
const OBJECT: &str = "create it in the pod's namespace, correct its name in the container's env, or set optional: true; hostlet retries automatically";

pub(super) const RULES: &[Rule] = &[
    rule(&["runasuser breaks non-root policy"], "runAsNonRoot forbids root, but runAsUser is 0", NOT_ROOT),
    rule(
        &["runasnonroot and image will run as root"],
        "runAsNonRoot forbids root, but its image runs as root",
        NOT_ROOT,
    ),
    rule(
        &["cannot verify user is non-root"],
        "runAsNonRoot forbids root, but its image has a user name instead of a UID, which could be root",
        "set securityContext.runAsUser to that user's UID",
    ),
    rule(
        &["invalid user id"],
        "runAsNonRoot forbids root, but the user in its image is invalid",
        "set securityContext.runAsUser to a UID",
    ),
    rule(
        &["services have not yet been read"],
        "its environment needs the cluster's Services, and the API server has not returned them yet",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["timed out waiting for the"],
        "the API server has not returned an object that its environment refers to",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["cannot read"],
        "the API server failed to return an object that its environment refers to",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["is forbidden"],
        "the API server does not allow this node to read an object that its environment refers to",
        "check the pod's namespace, the object's name, and the node's permissions; hostlet retries automatically",
    ),
    rule(
        &["devicepath", "must be an absolute path"],
        "the path of a block device in it is relative",
        "correct devicePath in volumeDevices of the container",
    ),
    rule(
        &["is not utf-8"],
        "its environment refers to a value that is not UTF-8",
        "mount the Secret as a volume, or store UTF-8 text under that key; hostlet retries automatically",
    ),
    rule(&["configmap", "not found"], "a ConfigMap that its environment refers to does not exist", OBJECT),
    rule(&["secret", "not found"], "a Secret that its environment refers to does not exist", OBJECT),
    rule(
        &["couldn't find key"],
        "its environment refers to a key that the ConfigMap or Secret does not have",
        "add the key to the object, correct key in the container's env, or set optional: true; hostlet retries \
         automatically",
    ),
    rule(
        &["couldn't parse env file"],
        "a file that its environment refers to is missing or invalid",
        "check that an init container writes the file, with lines of the form NAME='value'; hostlet's log has the cause",
    ),
    rule(
        &["environment variable key", "not found in file"],
        "a file that its environment refers to lacks the variable",
        "write the key to the file, correct fileKeyRef in the container's env, or set optional: true",
    ),
    rule(
        &["recursive read-only mode"],
        "it needs a recursive read-only mount, which the container runtime does not support",
        "use containerd 2 with a current runc, or set recursiveReadOnly: IfPossible",
    ),
    rule(
        &["is an image: containerd"],
        "this version of containerd does not mount images",
        "update containerd to the version in the message, or put the files of the volume into the container's image",
    ),
    rule(
        &["is in an image: containerd"],
        "this version of containerd only mounts whole images",
        "update containerd to the version in the message, or remove subPath from volumeMounts",
    ),
    rule(
        &["field label"],
        "its environment refers to an unsupported field",
        "correct fieldRef.fieldPath in the container's env, e.g. metadata.name, status.podIP or \
         metadata.labels['key']",
    ),
    rule(
        &["the node has no address"],
        "its environment refers to the node's address, and this node has none",
        "give this host an address and a default route, or set --node-ip; hostlet retries automatically",
    ),
    rule(
        &["cannot find volume"],
        "it mounts a volume that the pod does not have",
        "correct the name in volumeMounts, or add the volume to spec.volumes",
    ),
    rule(
        &["localhostprofile must be set"],
        "its seccomp profile has no name",
        "set seccompProfile.localhostProfile to a file below the directory seccomp of hostlet's root directory",
    ),
    rule(
        &["apparmor profile"],
        "its AppArmor profile has no name or an unknown type",
        "set appArmorProfile.localhostProfile to a profile that this host has loaded (aa-status), or type to \
         RuntimeDefault",
    ),
    rule(
        &["environment variable", "is not supported"],
        "its environment has a source that hostlet does not support yet",
        "write the value into the manifest (env[].value)",
    ),
    rule(
        &["supplementalgroupspolicy"],
        "its supplementalGroupsPolicy is unknown",
        "set it to Merge or Strict, or remove it",
    ),
];

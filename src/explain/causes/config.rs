//! What keeps a container from being configured as its manifest says: hostlet's own words, which are upstream's.

use super::rule::{Rule, rule};

const NOT_ROOT: &str = "set securityContext.runAsUser to a user other than 0, or remove runAsNonRoot";
const OBJECT: &str = "make it in the pod's namespace, correct its name in the container's env, or set optional: true; hostlet goes \
     on by itself";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["runasuser breaks non-root policy"],
        "runAsNonRoot forbids root, and runAsUser says root",
        NOT_ROOT,
    ),
    rule(
        &["runasnonroot and image will run as root"],
        "runAsNonRoot forbids root, and its image runs as root",
        NOT_ROOT,
    ),
    rule(
        &["cannot verify user is non-root"],
        "runAsNonRoot forbids root, and its image names its user by a name, which may be root's",
        "set securityContext.runAsUser to that user's number",
    ),
    rule(
        &["invalid user id"],
        "runAsNonRoot forbids root, and the user that its image names is none",
        "set securityContext.runAsUser to a user's number",
    ),
    rule(
        &["services have not yet been read"],
        "its environment tells of the cluster's services, and the API server has not told of them yet",
        "see that the API server can be reached from this node; hostlet goes on by itself",
    ),
    rule(
        &["timed out waiting for the"],
        "an object that its environment is made from has not come yet",
        "see that the API server can be reached from this node; hostlet goes on by itself",
    ),
    rule(
        &["cannot read"],
        "the API server does not give an object that its environment is made from",
        "see that the API server can be reached from this node; hostlet goes on by itself",
    ),
    rule(
        &["is forbidden"],
        "the API server does not let this node read an object that its environment is made from",
        "see that the pod, its namespace and the object's name are right, and what the node may read; hostlet goes on by itself",
    ),
    rule(
        &["is not utf-8"],
        "its environment takes a value that is no text",
        "mount the Secret as a volume, or put text under that key; hostlet goes on by itself",
    ),
    rule(&["configmap", "not found"], "a ConfigMap that its environment is made from does not exist", OBJECT),
    rule(&["secret", "not found"], "a Secret that its environment is made from does not exist", OBJECT),
    rule(
        &["couldn't find key"],
        "its environment names a key that the ConfigMap or Secret does not have",
        "add the key to the object, correct key in the container's env, or set optional: true; hostlet goes on by itself",
    ),
    rule(
        &["field label"],
        "its environment names a field that cannot be shown",
        "correct fieldRef.fieldPath in the container's env, e.g. metadata.name, status.podIP or metadata.labels['key']",
    ),
    rule(
        &["the node has no address"],
        "its environment shows the node's address, and this node has none",
        "give this host an address and a default route, or set --node-ip; hostlet goes on by itself",
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
        "its AppArmor profile has no name, or a type that does not exist",
        "set appArmorProfile.localhostProfile to a profile that this host has loaded (aa-status), or type to RuntimeDefault",
    ),
    rule(
        &["environment variable", "is not supported"],
        "its environment has a source that hostlet does not read yet",
        "write the value into the manifest (env[].value)",
    ),
    rule(
        &["supplementalgroupspolicy"],
        "its supplementalGroupsPolicy is none that exists",
        "set it to Merge or Strict, or remove it",
    ),
];

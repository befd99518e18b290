//! Causes why a pod's volumes cannot be set up.

use super::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        &["hostpath type check failed", "is not a directory"],
        "a hostPath volume requires a directory that does not exist on this host",
        "create it (mkdir -p), correct hostPath.path, or set hostPath.type to DirectoryOrCreate; hostlet \
         retries automatically",
    ),
    rule(
        &["hostpath type check failed", "is not a file"],
        "a hostPath volume requires a file that does not exist on this host",
        "create it, correct hostPath.path, or set hostPath.type to FileOrCreate; hostlet retries automatically",
    ),
    rule(
        &["hostpath type check failed", "is not a socket"],
        "a hostPath volume requires a socket that does not exist on this host",
        "start the service that listens on it, or correct hostPath.path; hostlet retries automatically",
    ),
    rule(
        &["hostpath type check failed", "device"],
        "a hostPath volume requires a device that does not exist on this host",
        "check that the device exists (ls -l /dev) and its driver is loaded, or correct hostPath.path; hostlet \
         retries automatically",
    ),
    rule(
        &["for volume", "not a directory"],
        "a component of a volume's path is not a directory",
        "correct the path in the message, in the manifest or on this host; hostlet retries automatically",
    ),
    rule(
        &["for volume", "there is no api server"],
        "a volume refers to an object of a cluster, and this node has no API server",
        "remove the volume, or use a hostPath with the same files",
    ),
    rule(
        &["timed out waiting for the"],
        "the API server has not returned the object that a volume refers to",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["for volume", "cannot read"],
        "the API server failed to return an object that a volume refers to",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["for volume", "is forbidden"],
        "the API server does not allow this node to read an object that a volume refers to",
        "check the pod's namespace, the object's name, and the node's permissions; hostlet retries automatically",
    ),
    rule(
        &["for volume", "configmap", "not found"],
        "the ConfigMap of a volume does not exist",
        "create it in the pod's namespace, correct its name in spec.volumes, or set optional: true; hostlet \
         retries automatically",
    ),
    rule(
        &["for volume", "secret", "not found"],
        "the Secret of a volume does not exist",
        "create it in the pod's namespace, correct its name in spec.volumes, or set optional: true; hostlet \
         retries automatically",
    ),
    rule(
        &["references non-existent"],
        "a volume refers to a key that its ConfigMap or Secret does not have",
        "add the key to the object, correct items in spec.volumes, or set optional: true; hostlet retries \
         automatically",
    ),
    rule(
        &["failed to fetch token"],
        "the API server did not issue a token for the pod's service account",
        "check that the service account exists, and that the API server accepts the audience; hostlet retries \
         automatically",
    ),
    rule(
        &["unsupported fieldpath"],
        "a downwardAPI volume refers to an unsupported field",
        "correct fieldRef.fieldPath in spec.volumes",
    ),
    rule(
        &["unsupported container resource"],
        "a downwardAPI volume refers to an unsupported resource",
        "correct resourceFieldRef.resource in spec.volumes",
    ),
    rule(
        &["for volume", "container", "not found"],
        "a downwardAPI volume refers to a container that the pod does not have",
        "correct resourceFieldRef.containerName in spec.volumes",
    ),
    rule(
        &["for volume", "is not supported"],
        "a volume has a field that hostlet does not support yet",
        "remove the field in the message from spec.volumes",
    ),
    rule(
        &["has something mounted in it"],
        "something else is mounted at a volume's path",
        "find out what it is (findmnt) and unmount it; hostlet never unmounts what it did not mount",
    ),
    rule(
        &["earlier work on the pod's volumes has not ended"],
        "a disk or file system of this host does not respond",
        "find out which one (processes in state D in ps aux, journalctl -k); hostlet retries automatically",
    ),
    rule(
        &["attach or mount volumes", "no answer within"],
        "a disk or file system of this host does not respond",
        "find out which one (processes in state D in ps aux, journalctl -k); hostlet retries automatically",
    ),
];

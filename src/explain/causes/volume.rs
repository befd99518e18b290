//! What keeps a pod's volumes from being set up.

use super::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        &["hostpath type check failed", "is not a directory"],
        "a hostPath volume wants a directory that is not on this host",
        "make it (mkdir -p), correct hostPath.path, or set hostPath.type to DirectoryOrCreate; hostlet goes on by itself",
    ),
    rule(
        &["hostpath type check failed", "is not a file"],
        "a hostPath volume wants a file that is not on this host",
        "make it, correct hostPath.path, or set hostPath.type to FileOrCreate; hostlet goes on by itself",
    ),
    rule(
        &["hostpath type check failed", "is not a socket"],
        "a hostPath volume wants a socket that is not on this host",
        "start the service that listens on it, or correct hostPath.path; hostlet goes on by itself",
    ),
    rule(
        &["hostpath type check failed", "device"],
        "a hostPath volume wants a device that is not on this host",
        "see that the device is there (ls -l /dev) and its driver loaded, or correct hostPath.path; hostlet goes on by itself",
    ),
    rule(
        &["for volume", "not a directory"],
        "the path of a volume goes through something that is no directory",
        "correct the path that the message names, in the manifest or on this host; hostlet goes on by itself",
    ),
    rule(
        &["for volume", "there is no api server"],
        "a volume is made from an object of a cluster, and this node has no API server",
        "remove the volume, or use a hostPath with the same files",
    ),
    rule(
        &["timed out waiting for the"],
        "the object that a volume is made from has not come yet",
        "see that the API server can be reached from this node; hostlet goes on by itself",
    ),
    rule(
        &["for volume", "cannot read"],
        "the API server does not give an object that a volume is made from",
        "see that the API server can be reached from this node; hostlet goes on by itself",
    ),
    rule(
        &["for volume", "is forbidden"],
        "the API server does not let this node read an object that a volume is made from",
        "see that the pod, its namespace and the object's name are right, and what the node may read; hostlet goes on by itself",
    ),
    rule(
        &["for volume", "configmap", "not found"],
        "the ConfigMap that a volume is made from does not exist",
        "make it in the pod's namespace, correct its name in spec.volumes, or set optional: true; hostlet goes on by itself",
    ),
    rule(
        &["for volume", "secret", "not found"],
        "the Secret that a volume is made from does not exist",
        "make it in the pod's namespace, correct its name in spec.volumes, or set optional: true; hostlet goes on by itself",
    ),
    rule(
        &["references non-existent"],
        "a volume names a key that its ConfigMap or Secret does not have",
        "add the key to the object, correct items in spec.volumes, or set optional: true; hostlet goes on by itself",
    ),
    rule(
        &["failed to fetch token"],
        "the API server does not give a token for the pod's service account",
        "see that the service account exists, and that the audience is one the API server knows; hostlet goes on by itself",
    ),
    rule(
        &["unsupported fieldpath"],
        "a downwardAPI volume names a field that no file can show",
        "correct fieldRef.fieldPath in spec.volumes",
    ),
    rule(
        &["unsupported container resource"],
        "a downwardAPI volume names a resource that no file can show",
        "correct resourceFieldRef.resource in spec.volumes",
    ),
    rule(
        &["for volume", "container", "not found"],
        "a downwardAPI volume names a container that the pod does not have",
        "correct resourceFieldRef.containerName in spec.volumes",
    ),
    rule(
        &["for volume", "is not supported"],
        "a volume asks for something that hostlet does not do yet",
        "remove what the message names from spec.volumes",
    ),
    rule(
        &["has something mounted in it"],
        "something else is mounted where a volume is to be",
        "see what it is (findmnt) and unmount it; hostlet removes nothing that it did not mount",
    ),
    rule(
        &["earlier work on the pod's volumes has not ended"],
        "a disk or file system of this host does not answer",
        "see which one (processes in state D in ps aux, journalctl -k); hostlet goes on by itself",
    ),
    rule(
        &["attach or mount volumes", "no answer within"],
        "a disk or file system of this host does not answer",
        "see which one (processes in state D in ps aux, journalctl -k); hostlet goes on by itself",
    ),
];

//! Causes why a pod's volumes cannot be set up.

use super::rule::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        &["error processing pvc", "pvc is not bound"],
        "the claim of a volume is not bound to a PersistentVolume",
        "find out what it waits for (kubectl describe pvc): a PersistentVolume that fits, or its provisioner; without an API \
         server, a PersistentVolume whose spec.claimRef names it, in a manifest; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc", "pvc is being deleted"],
        "the claim of a volume is being deleted",
        "delete the pod, or create the claim again; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc", "but it belongs to the claim"],
        "the PersistentVolume belongs to another claim",
        "correct spec.volumeName of one of the claims, or spec.claimRef of the PersistentVolume",
    ),
    rule(
        &["error processing pvc", "pv.spec.claimref"],
        "the PersistentVolume belongs to another claim, perhaps to an earlier one of the same name",
        "correct spec.claimRef of the PersistentVolume, or remove its uid so that the claim is bound again; hostlet \
         retries automatically",
    ),
    rule(
        &["error processing pvc", "failed to fetch pv ", "not found"],
        "the PersistentVolume of a claim does not exist",
        "create it, or delete the claim and create it again; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc", "persistentvolumeclaims", "not found"],
        "the claim of a volume does not exist",
        "create it in the pod's namespace, or correct persistentVolumeClaim.claimName in spec.volumes; hostlet \
         retries automatically",
    ),
    rule(
        &["error processing pvc", "no manifest defines"],
        "no manifest defines the claim of a volume, or the PersistentVolume that the claim names",
        "add it to the directory of static pods, or correct the name; hostlet retries automatically",
    ),
    rule(
        &["error processing pvc"],
        "the API server did not return the claim of a volume or its PersistentVolume",
        "check that this node can reach the API server and may read them; hostlet retries automatically",
    ),
    rule(
        &["has volumemode", "but is specified in"],
        "the volume of a claim is a block device, and hostlet mounts volumes as filesystems only",
        "use a claim with volumeMode: Filesystem",
    ),
    rule(
        &["findpluginbyspec failed", "csi driver"],
        "the PersistentVolume needs a volume driver, and hostlet does not run volume drivers yet",
        "use a PersistentVolume of the type local, hostPath or nfs, or run the pod on a node with another kubelet",
    ),
    rule(
        &["findpluginbyspec failed"],
        "hostlet does not mount PersistentVolumes of this type yet",
        "use a PersistentVolume of the type local, hostPath or nfs, or run the pod on a node with another kubelet",
    ),
    rule(
        &["nodeaffinity check failed"],
        "the PersistentVolume belongs to other nodes",
        "run the pod on a node that spec.nodeAffinity of the PersistentVolume matches, or correct that",
    ),
    rule(
        &["newmounter initialization failed", "does not exist"],
        "the directory of a local PersistentVolume does not exist on this host",
        "create it or mount its disk, or correct local.path of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["only directory and block device are supported"],
        "the path of a local PersistentVolume is not a directory",
        "correct local.path of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["block device", "of a local volume is not mounted"],
        "hostlet does not mount the device of a local PersistentVolume yet",
        "mount it on a directory of this host, and set local.path to that",
    ),
    rule(
        &["mount options are not supported for this volume type"],
        "a PersistentVolume of the type hostPath has mount options, which have no effect there",
        "remove mountOptions from the PersistentVolume",
    ),
    rule(
        &["readwriteoncepod access mode"],
        "another pod on this node uses a volume for one pod only",
        "remove the other pod, or use another access mode; hostlet retries automatically",
    ),
    rule(
        &["setting volume ownership for"],
        "the files of a volume are still being given to the pod's group",
        "wait, or set fsGroupChangePolicy: OnRootMismatch so that it happens once only",
    ),
    rule(
        &["mounting arguments: -t nfs", "helper program"],
        "this host lacks the program that mounts NFS",
        "install it (nfs-common on Debian and Ubuntu, nfs-utils elsewhere); hostlet retries automatically",
    ),
    rule(
        &["mounting arguments: -t nfs", "unknown filesystem type"],
        "the kernel of this host has no NFS client",
        "load its module (modprobe nfs); hostlet retries automatically",
    ),
    rule(
        &["mounting arguments: -t nfs", "access denied"],
        "the NFS server does not export the directory to this host",
        "correct the exports of the server, or server and path of the volume; hostlet retries automatically",
    ),
    rule(
        &["mounting arguments: -t nfs"],
        "the NFS server or its directory cannot be mounted",
        "try it by hand (mount -t nfs SERVER:PATH /mnt), or correct server, path and mount options of the volume; hostlet \
         retries automatically",
    ),
    rule(
        &["mount failed:", "mounting arguments:"],
        "the host's mount refused to mount a volume",
        "correct what its output says, perhaps mountOptions of the PersistentVolume; hostlet retries automatically",
    ),
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
        &["no resource request for huge pages"],
        "a volume is in huge pages, and the pod requests none of that size",
        "request hugepages-<size> in the resources of the container that mounts it",
    ),
    rule(
        &["requests multiple huge page sizes"],
        "a volume is in huge pages, and the pod requests several sizes",
        "name the size in emptyDir.medium: HugePages-<size>",
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

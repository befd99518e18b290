//! Causes why the volume of a CSI driver cannot be used, by upstream's messages and the codes of calls (the CSI specification's error
//! scheme). Pure.

use hostlet_base::causes::{Rule, rule};

const DRIVER_LOGS: &str = "read the logs of the driver's pod on this node (the container with the driver, not those of its sidecars), and what the \
     message says; hostlet retries automatically";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["not found in the list of registered csi drivers"],
        "the CSI driver of a volume is not registered on this node",
        "check that the driver's pod runs on this node and that its registrar is ready (its socket is in \
         plugins_registry of the daemon's directory); hostlet retries automatically",
    ),
    rule(
        &["runs without a cluster", "attached by a controller"],
        "the CSI driver wants its volumes attached by a controller of a cluster, which this host does not have",
        "add a CSIDriver object with attachRequired: false for it to the manifests if it can do without",
    ),
    rule(
        &["volume has not been added to the list of volumesinuse"],
        "the node's status does not say yet that the volume is in use",
        "wait for the next status of the node, and check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["volume not attached according to node status"],
        "the volume is not attached to this node yet",
        "look at the VolumeAttachment (kubectl get volumeattachments) and at the driver's controller with its external-attacher: the \
         volume may still be attached to another node; hostlet retries automatically",
    ),
    rule(
        &["insufficient volume attachment capacity"],
        "the CSI driver cannot attach more volumes to this node",
        "remove pods with volumes of this driver from the node, or run the pod on another one",
    ),
    rule(
        &["while expanding volume"],
        "the CSI driver could not give the volume the size of its claim, and the pod waits for that",
        "look at the condition NodeResizeError of the claim, and read the logs of the driver's pod on this node; a claim that asks for another \
         size ends this attempt; hostlet retries automatically",
    ),
    rule(
        &["attachvolume.attach failed"],
        "the CSI driver's controller could not attach the volume to this node",
        "look at status.attachError of the VolumeAttachment and at the logs of the driver's controller; hostlet retries automatically",
    ),
    rule(
        &["fetching nodestagesecretref", "not found"],
        "a Secret that the CSI driver needs to prepare the volume does not exist",
        "create it, or correct csi.nodeStageSecretRef of the PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["nodepublishsecretref", "not found"],
        "a Secret that the CSI driver needs to publish the volume does not exist",
        "create it, or correct nodePublishSecretRef of the volume or its PersistentVolume; hostlet retries automatically",
    ),
    rule(
        &["secretref", "failed to find the secret"],
        "a Secret that the CSI driver needs cannot be read",
        "check that it exists, and that this node can reach the API server and may read it; hostlet retries automatically",
    ),
    rule(
        &["failed to check volume lifecycle mode", "no csidriver object"],
        "the CSI driver has no CSIDriver object, without which a volume cannot be in the spec of a pod",
        "create the CSIDriver object of the driver with Ephemeral in volumeLifecycleModes, or use a claim; hostlet retries automatically",
    ),
    rule(
        &["failed to check volume lifecycle mode"],
        "the CSI driver has no volumes of this lifecycle",
        "use a claim instead of a volume in the pod's spec, or the reverse: volumeLifecycleModes of the CSIDriver object lists what \
         the driver has",
    ),
    rule(
        &["service accoount token attributes"],
        "the API server did not issue a token that the CSI driver wants of the pod's service account",
        "check that the service account exists, and that the API server accepts the audiences in tokenRequests of the CSIDriver object; \
         hostlet retries automatically",
    ),
    rule(
        &["multiple selinux labels found"],
        "the containers of the pod use a volume with different SELinux labels, and it is mounted with one only",
        "give them the same seLinuxOptions, or set seLinuxChangePolicy: Recursive in the pod's securityContext",
    ),
    rule(
        &["unmountvolume.teardown failed", "only its driver can unpublish"],
        "a volume of a CSI driver is still published for a pod, and only a running hostlet can ask the driver to take it back",
        "start hostlet and the driver, let them remove the pod, and try again; what is mounted was left as it is",
    ),
    rule(
        &["rpc error: code = notfound"],
        "the CSI driver does not know the volume",
        "check that the volume behind csi.volumeHandle of the PersistentVolume still exists; hostlet retries automatically",
    ),
    rule(&["rpc error: code = deadlineexceeded"], "the CSI driver did not answer in time", DRIVER_LOGS),
    rule(
        &["rpc error: code = aborted"],
        "the CSI driver still works on an earlier call for the volume",
        "wait; if it stays so, read the logs of the driver's pod on this node; hostlet retries automatically",
    ),
    rule(
        &["rpc error: code = unavailable"],
        "the CSI driver does not answer on its socket",
        "check that the driver's pod on this node runs; hostlet retries automatically",
    ),
    rule(
        &["rpc error: code = failedprecondition"],
        "the CSI driver says that the volume cannot be used like this now, perhaps because another node uses it",
        DRIVER_LOGS,
    ),
    rule(
        &["rpc error: code = invalidargument"],
        "the CSI driver does not accept the attributes, the mount options, the secrets or the access mode of the volume",
        "correct them in the PersistentVolume or its StorageClass by what the message says; hostlet retries automatically",
    ),
    rule(&["rpc error: code ="], "a call of the CSI driver failed", DRIVER_LOGS),
    rule(
        &["context deadline exceeded", "failed to process volumes=[]"],
        "a CSI driver did not finish its work on a volume in time",
        DRIVER_LOGS,
    ),
];

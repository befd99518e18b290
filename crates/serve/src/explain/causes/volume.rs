//! Causes why a pod's volumes cannot be set up, whatever their kinds.

use hostlet_base::causes::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
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

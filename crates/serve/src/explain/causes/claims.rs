//! Causes why a pod's claimed devices cannot be prepared or unprepared.

use hostlet_base::causes::{Rule, rule};

pub(super) const RULES: &[Rule] = &[
    rule(
        &["unprepare dynamic resources", "DRA driver", "is not registered"],
        "a DRA driver must undo what it prepared for the pod, and it is not on this node",
        "start the driver again; if it does not come back, find the claim with `hostlet claims`, and give up with \
         `hostlet claims --forget NAMESPACE/NAME`",
    ),
    rule(
        &["unprepare dynamic resources"],
        "a DRA driver cannot undo what it prepared for the pod",
        "look at the driver's log; hostlet retries automatically",
    ),
    rule(
        &["prepare dynamic resources", "DRA driver", "is not registered"],
        "the DRA driver of a device that the scheduler allocated for the pod is not on this node, or does not prepare claims",
        "start the driver on this node (`hostlet plugins` shows those that are registered); hostlet retries as soon as it registers",
    ),
    rule(
        &["prepare dynamic resources", "fetch ResourceClaim"],
        "the pod's ResourceClaim cannot be read from the API server",
        "create the claim in the message, or correct its name in spec.resourceClaims; hostlet retries automatically",
    ),
    rule(
        &["prepare dynamic resources", "is being unprepared"],
        "another pod that used the claim ends, and its devices are being given back",
        "wait; `hostlet claims` shows what that waits for",
    ),
    rule(
        &["prepare dynamic resources", "still exists"],
        "an earlier claim of the same name is still prepared on this node",
        "wait until its pod has ended; `hostlet claims` shows what that waits for",
    ),
    rule(
        &["prepare dynamic resources", "is not allowed to use"],
        "the claim is reserved for other pods: the scheduler did not place this pod for it",
        "let the scheduler place the pod: remove spec.nodeName",
    ),
    rule(
        &["prepare dynamic resources", "failed for ResourceClaim"],
        "a DRA driver cannot prepare a device",
        "look at the driver's log; hostlet retries automatically",
    ),
];

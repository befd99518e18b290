//! Metrics of in-place resizes, read from the statuses. The names are upstream's.

use std::collections::BTreeMap;

use hostlet_pod::priority_bucket;
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use super::StatusCache;
use super::conditions::{RESIZE_IN_PROGRESS, RESIZE_PENDING};

/// Registers the numbers of pending resizes and of those in progress.
pub fn register_resizes(metrics: &Metrics, cache: &StatusCache) {
    let of = cache.clone();
    metrics.register_gauge("kubelet_pod_pending_resizes", "Number of pending resizes for pods.", move || {
        let mut counts = BTreeMap::new();
        for entry in of.all() {
            if let Some(pending) = condition(&entry.status, RESIZE_PENDING) {
                let reason = pending.reason.as_deref().unwrap_or_default().to_lowercase();
                *counts.entry((reason, priority_bucket(&entry.pod))).or_insert(0) += 1;
            }
        }
        let reading = |((reason, bucket), count): ((String, &str), u64)| {
            (vec![("reason", reason), ("priority_bucket", bucket.to_owned())], count)
        };
        counts.into_iter().map(reading).collect()
    });
    let of = cache.clone();
    let help = "Number of in-progress resizes for pods.";
    metrics.register_gauge("kubelet_pod_in_progress_resizes", help, move || {
        let statuses = of.all();
        let count =
            statuses.iter().filter(|entry| condition(&entry.status, RESIZE_IN_PROGRESS).is_some()).count();
        vec![(Vec::new(), count as u64)]
    });
}

fn condition<'s>(status: &'s PodStatus, type_: &str) -> Option<&'s PodCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

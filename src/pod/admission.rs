//! Which of the pods a source names may run on this node. Pure; a pod is judged once, by its spec alone.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::source::{SourceState, StaticPod};
use super::status::Phase;
use super::table::WantedPods;
use crate::types::CONFIG_SEEN_ANNOTATION;

/// Reason of a pod that asks for what this node does not do (upstream's, of its node-declared-features check).
const UNSUPPORTED: &str = "PodFeatureUnsupported";

/// The pods that may run, and those that are refused, each with a status that says why.
pub fn admit(source: &SourceState) -> (WantedPods, Vec<Pod>) {
    let (refused, admitted): (Vec<_>, Vec<_>) =
        source.pods.iter().partition(|pod| !pod.unsupported.is_empty());
    let wanted = WantedPods { ready: source.ready, pods: admitted.iter().map(|p| p.pod.clone()).collect() };
    (wanted, refused.into_iter().map(|pod| refuse(pod)).collect())
}

fn refuse(refused: &StaticPod) -> Pod {
    let sentences: Vec<String> = refused.unsupported.iter().map(ToString::to_string).collect();
    let mut pod = Pod::clone(&refused.pod);
    let seen = pod.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SEEN_ANNOTATION)?.parse().ok());
    pod.status = Some(PodStatus {
        phase: Some(Phase::Failed.as_str().to_owned()),
        reason: Some(UNSUPPORTED.to_owned()),
        message: Some(format!("Pod was rejected: {}", sentences.join("; "))),
        start_time: seen.map(Time),
        ..PodStatus::default()
    });
    pod
}

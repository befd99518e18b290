//! The judgement: refusals carry upstream's reasons and messages, so that people and programs know them.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::sysctls::forbidden_sysctl;
use crate::pod::pod_ref;
use crate::pod::source::{SourceState, StaticPod};
use crate::pod::status::Phase;
use crate::pod::table::WantedPods;
use crate::types::{CONFIG_SEEN_ANNOTATION, PodUid};

/// What this node gives to pods.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many pods may run. (`maxPods`)
    pub max_pods: usize,
    /// Sysctls beyond the safe ones: names, or starts of names followed by `*`. (`allowedUnsafeSysctls`)
    pub allowed_unsafe_sysctls: Vec<String>,
}

struct Refusal {
    reason: &'static str,
    message: String,
}

/// The pods that may run, and those that are refused, each with a status that says why. Of more pods than may run, those
/// run that were admitted before (`admitted` says when), then those seen first: a pod that runs gives way neither to one
/// that comes, nor to one that a new daemon happens to read first.
pub fn admit(
    source: &SourceState,
    admitted: &HashMap<PodUid, Timestamp>,
    limits: &Limits,
) -> (WantedPods, Vec<Pod>) {
    let mut pods: Vec<_> = source.pods.iter().collect();
    pods.sort_by_key(|pod| {
        let at = admitted.get(&pod_ref(&pod.pod).uid).copied();
        (at.is_none(), at, seen(&pod.pod))
    });
    let mut wanted = WantedPods { ready: source.ready, pods: Vec::new() };
    let mut refused = Vec::new();
    for pod in pods {
        match judge(pod, wanted.pods.len(), limits) {
            None => wanted.pods.push(pod.pod.clone()),
            Some(refusal) => refused.push(refuse(&pod.pod, refusal)),
        }
    }
    (wanted, refused)
}

fn judge(pod: &StaticPod, used: usize, limits: &Limits) -> Option<Refusal> {
    if !pod.unsupported.is_empty() {
        let sentences: Vec<String> = pod.unsupported.iter().map(ToString::to_string).collect();
        // Upstream's reason for what its node-declared-features check refuses.
        return Some(Refusal { reason: "PodFeatureUnsupported", message: sentences.join("; ") });
    }
    if let Some(message) = forbidden_sysctl(&pod.pod, &limits.allowed_unsafe_sysctls) {
        return Some(Refusal { reason: "SysctlForbidden", message });
    }
    let capacity = limits.max_pods;
    (used >= capacity).then(|| Refusal {
        reason: "OutOfpods",
        message: format!(
            "Node didn't have enough resource: pods, requested: 1, used: {used}, capacity: {capacity}"
        ),
    })
}

fn refuse(pod: &Pod, refusal: Refusal) -> Pod {
    let mut pod = Pod::clone(pod);
    pod.status = Some(PodStatus {
        phase: Some(Phase::Failed.as_str().to_owned()),
        reason: Some(refusal.reason.to_owned()),
        message: Some(format!("Pod was rejected: {}", refusal.message)),
        start_time: seen(&pod).map(Time),
        ..PodStatus::default()
    });
    pod
}

/// When the pod was first seen by its source.
fn seen(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SEEN_ANNOTATION)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pod::testing;
    use crate::pod::validation::{FieldError, FieldPath};

    fn limits(max_pods: usize) -> Limits {
        Limits { max_pods, allowed_unsafe_sysctls: Vec::new() }
    }

    fn source(pods: Vec<Pod>) -> SourceState {
        let pods = pods.into_iter().map(|pod| {
            Arc::new(StaticPod { pod: Arc::new(pod), file: "/m/x.yaml".into(), unsupported: Vec::new() })
        });
        SourceState { ready: true, pods: pods.collect(), problems: Vec::new() }
    }

    fn pod_seen(name: &str, second: i64) -> Pod {
        let mut pod = testing::pod(name, name, "Always", &["c"]);
        let at = Timestamp::from_second(second).unwrap().to_string();
        pod.metadata.annotations.get_or_insert_default().insert(CONFIG_SEEN_ANNOTATION.to_owned(), at);
        pod
    }

    fn status(pod: &Pod) -> (&str, &str) {
        let status = pod.status.as_ref().unwrap();
        (status.reason.as_deref().unwrap(), status.message.as_deref().unwrap())
    }

    #[test]
    fn of_too_many_pods_the_first_seen_run() {
        let source = source(vec![pod_seen("late", 9), pod_seen("first", 1), pod_seen("second", 2)]);
        let (wanted, refused) = admit(&source, &HashMap::new(), &limits(2));
        let names: Vec<_> = wanted.pods.iter().map(|p| p.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["first", "second"]);
        let (reason, message) = status(&refused[0]);
        assert_eq!(reason, "OutOfpods");
        assert!(message.ends_with("pods, requested: 1, used: 2, capacity: 2"), "{message}");
    }

    #[test]
    fn what_was_admitted_stays_admitted_whatever_is_seen_first() {
        let source = source(vec![pod_seen("new", 1), pod_seen("later", 9), pod_seen("sooner", 9)]);
        let at = |second| Timestamp::from_second(second).unwrap();
        let admitted = HashMap::from([("later".into(), at(5)), ("sooner".into(), at(4))]);
        let (wanted, refused) = admit(&source, &admitted, &limits(2));
        let names: Vec<_> = wanted.pods.iter().map(|p| p.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["sooner", "later"]);
        assert_eq!(refused[0].metadata.name.as_deref(), Some("new"));
    }

    #[test]
    fn unsupported_fields_are_named() {
        let mut source = source(vec![pod_seen("a", 1)]);
        let unsupported = vec![FieldError::required(&FieldPath::root("spec"), "x")];
        let refused = StaticPod { unsupported, ..StaticPod::clone(&source.pods[0]) };
        source.pods[0] = Arc::new(refused);
        let (wanted, refused) = admit(&source, &HashMap::new(), &limits(9));
        assert!(wanted.ready && wanted.pods.is_empty());
        let (reason, message) = status(&refused[0]);
        assert_eq!(reason, "PodFeatureUnsupported");
        assert!(message.starts_with("Pod was rejected: spec"), "{message}");
    }
}

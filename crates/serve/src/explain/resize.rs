//! Explains what became of a requested in-place resize: the pod runs, but not with the resources that its spec asks for.

use hostlet_base::reasons;
use k8s_openapi::api::core::v1::PodCondition;

use super::case::ExplainInput;
use super::explanation::{Explanation, Verdict, one_line};

/// Adds a resize that is pending or fails. It is the explanation of a pod that is fine otherwise.
pub(super) fn with_resize(case: &ExplainInput<'_>, mut explanation: Explanation) -> Explanation {
    let conditions = case.status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let found = conditions.iter().find_map(|condition| Some((condition, resize(condition)?)));
    let Some((condition, resize)) = found else { return explanation };
    if explanation.verdict != Verdict::Fine {
        explanation.also.push(format!("{}.", resize.sentence.trim_end_matches('.')));
        return explanation;
    }
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    let also = explanation.also;
    Explanation { also, ..resize.at("resizing").since(since) }
}

/// What a condition says about a resize.
fn resize(condition: &PodCondition) -> Option<Explanation> {
    let message = one_line(condition.message.as_deref().unwrap_or_default());
    let now = "The pod runs with its earlier resources";
    let (sentence, remedy) = match (condition.type_.as_str(), condition.reason.as_deref()) {
        ("PodResizePending", Some("Infeasible")) => (
            format!("{now}, because this node cannot resize it: {message}"),
            "take the change of resources back, or replace the pod by one with the new resources",
        ),
        ("PodResizePending", _) => (
            format!("{now}, because the requested ones are not free: {message}"),
            "wait until other pods end or shrink, or request less; hostlet retries whenever one does",
        ),
        ("PodResizeInProgress", Some(reasons::RESIZE_ERROR)) => (
            format!("The pod cannot be given its new resources: {message}"),
            "correct the problem in the message, or take the change of resources back; hostlet retries automatically",
        ),
        _ => return None,
    };
    Some(Explanation::wrong(sentence).do_this(remedy))
}

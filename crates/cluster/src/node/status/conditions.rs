//! Conditions of the Node, and those for pressure. Conditions of other writers are not touched.

use std::borrow::Cow;

use hostlet_base::node::{NodeEvent, Pressure, Pressures};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::events::status_event;

/// The content of a condition.
pub(super) struct ConditionContent {
    pub(super) type_: &'static str,
    pub(super) holds: bool,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
}

/// Upstream's content of a pressure condition, and the event about its change. Without pressure the reason is upstream's, for
/// programs, but the message claims nothing that was not observed.
fn pressure_content(pressure: Pressure, holds: bool) -> (ConditionContent, &'static str) {
    let (reason, message, event) = match (pressure, holds) {
        (Pressure::Memory, true) => (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ),
        (Pressure::Memory, false) => (
            "KubeletHasSufficientMemory",
            "hostlet does not observe memory pressure yet, so it reports none",
            "NodeHasSufficientMemory",
        ),
        (Pressure::Disk, true) => {
            ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure")
        }
        (Pressure::Disk, false) => (
            "KubeletHasNoDiskPressure",
            "hostlet does not observe disk pressure yet, so it reports none",
            "NodeHasNoDiskPressure",
        ),
        (Pressure::Pid, true) => {
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID")
        }
        (Pressure::Pid, false) => (
            "KubeletHasSufficientPID",
            "hostlet does not observe PID pressure yet, so it reports none",
            "NodeHasSufficientPID",
        ),
    };
    let type_ = pressure.condition();
    (ConditionContent { type_, holds, reason: reason.into(), message: message.to_owned() }, event)
}

/// Sets the pressure conditions. Returns an event for each one that changed or is new.
pub(super) fn set_pressures(
    status: &mut NodeStatus,
    observed: &Pressures,
    node: &str,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let mut events = Vec::new();
    for pressure in Pressure::ALL {
        let (content, event) = pressure_content(pressure, observed.contains(&pressure));
        if put(status, content, now) != Previous::Same {
            events.push(status_event(node, event));
        }
    }
    events
}

/// The previous status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Previous {
    /// The condition did not exist.
    Absent,
    /// The same status.
    Same,
    /// A different status.
    Other,
}

/// Replaces a condition in the list or appends it. The transition time changes with the status, not with the reason. The
/// heartbeat of an existing condition stays, since it alone is no change.
pub(super) fn put(status: &mut NodeStatus, content: ConditionContent, now: Timestamp) -> Previous {
    let conditions = status.conditions.get_or_insert_default();
    let holds = if content.holds { "True" } else { "False" };
    let old = conditions.iter_mut().find(|condition| condition.type_ == content.type_);
    let before = match &old {
        None => Previous::Absent,
        Some(old) if old.status == holds => Previous::Same,
        Some(_) => Previous::Other,
    };
    let transition = match (&old, before) {
        (Some(old), Previous::Same) => old.last_transition_time.clone(),
        (_, Previous::Same | Previous::Absent | Previous::Other) => None,
    };
    let condition = NodeCondition {
        type_: content.type_.to_owned(),
        status: holds.to_owned(),
        reason: Some(content.reason.into_owned()),
        message: Some(content.message),
        last_transition_time: transition.or(Some(Time(now))),
        last_heartbeat_time: old.as_ref().and_then(|old| old.last_heartbeat_time.clone()).or(Some(Time(now))),
    };
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    before
}

/// Distinct errors as one message, as upstream's `Aggregate` formats them; `None` without errors.
pub(super) fn aggregate(errors: &[String]) -> Option<String> {
    let mut unique: Vec<&str> = Vec::new();
    for error in errors {
        if !unique.contains(&error.as_str()) {
            unique.push(error);
        }
    }
    match unique[..] {
        [] => None,
        [error] => Some(error.to_owned()),
        _ => Some(format!("[{}]", unique.join(", "))),
    }
}

//! Conditions of the Node, and those for pressure. Conditions of other writers are not touched.

use std::borrow::Cow;

use hostlet_base::node::{NodeEvent, Pressure, PressureState, PressureStates};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::events::status_event;

/// Reason of a pressure condition whose signals nobody has seen.
const UNOBSERVED: &str = "KubeletPressureUnobserved";

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The content of a condition.
pub(super) struct ConditionContent {
    pub(super) type_: &'static str,
    pub(super) status: ConditionStatus,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
}

/// Upstream's reason and message of a pressure condition, and the reason of the event about its change.
fn observed_content(pressure: Pressure, is_present: bool) -> [&'static str; 3] {
    match (pressure, is_present) {
        (Pressure::Memory, true) => [
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ],
        (Pressure::Memory, false) => [
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ],
        (Pressure::Disk, true) => {
            ["KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"]
        }
        (Pressure::Disk, false) => {
            ["KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"]
        }
        (Pressure::Pid, true) => {
            ["KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"]
        }
        (Pressure::Pid, false) => {
            ["KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"]
        }
    }
}

/// Sets the pressure conditions. Returns an event for each one that was observed and changed, or is new. Before the first look after a
/// start, what an earlier daemon found stays; what cannot be observed is reported as unknown, never as sufficient.
pub(super) fn set_pressures(
    status: &mut NodeStatus,
    states: &PressureStates,
    node: &str,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let mut events = Vec::new();
    for pressure in Pressure::ALL {
        let type_ = pressure.condition();
        let unknown = |message: String| ConditionContent {
            type_,
            status: ConditionStatus::Unknown,
            reason: UNOBSERVED.into(),
            message,
        };
        let is_present = match states.get(&pressure).unwrap_or(&PressureState::NotYet) {
            PressureState::NotYet => {
                if !has(status, type_) {
                    put(status, unknown("kubelet has not looked at it yet".to_owned()), now);
                }
                continue;
            }
            PressureState::Unknown(why) => {
                put(status, unknown(why.clone()), now);
                continue;
            }
            PressureState::Absent => false,
            PressureState::Present => true,
        };
        let [reason, message, event] = observed_content(pressure, is_present);
        let content = ConditionContent {
            type_,
            status: if is_present { ConditionStatus::True } else { ConditionStatus::False },
            reason: reason.into(),
            message: message.to_owned(),
        };
        if put(status, content, now) != Previous::Same {
            events.push(status_event(node, event));
        }
    }
    events
}

fn has(status: &NodeStatus, type_: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == type_)
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
    let new = content.status.as_str();
    let old = conditions.iter_mut().find(|condition| condition.type_ == content.type_);
    let before = match &old {
        None => Previous::Absent,
        Some(old) if old.status == new => Previous::Same,
        Some(_) => Previous::Other,
    };
    let transition = match (&old, before) {
        (Some(old), Previous::Same) => old.last_transition_time.clone(),
        (_, Previous::Same | Previous::Absent | Previous::Other) => None,
    };
    let condition = NodeCondition {
        type_: content.type_.to_owned(),
        status: new.to_owned(),
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

//! A condition of the node as the API has it, and the conditions of pressure. Other conditions in the list belong to others.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::node::{NodeEvent, Pressure, Pressures};

/// What a condition says.
pub(super) struct Said {
    pub(super) type_: &'static str,
    pub(super) holds: bool,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
}

/// What the condition of a pressure says, and the event about its change: upstream's, with or without the pressure.
fn verdict(pressure: Pressure, holds: bool) -> (Said, &'static str) {
    let (reason, message, event) = match (pressure, holds) {
        (Pressure::Memory, true) => (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ),
        (Pressure::Memory, false) => (
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ),
        (Pressure::Disk, true) => {
            ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure")
        }
        (Pressure::Disk, false) => {
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure")
        }
        (Pressure::Pid, true) => {
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID")
        }
        (Pressure::Pid, false) => {
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID")
        }
    };
    let type_ = pressure.condition();
    (Said { type_, holds, reason: reason.into(), message: message.to_owned() }, event)
}

/// Gives an event for each pressure that came, went, or was not known to be gone.
pub(super) fn set_pressures(
    status: &mut NodeStatus,
    observed: &Pressures,
    node: &str,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let mut events = Vec::new();
    for pressure in Pressure::ALL {
        let (said, event) = verdict(pressure, observed.contains(&pressure));
        if put(status, said, now) != Before::Same {
            events.push(NodeEvent::status(node, event));
        }
    }
    events
}

/// What a condition said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// There was none.
    Absent,
    /// The same.
    Same,
    /// Another status.
    Other,
}

/// Puts a condition in its place in the list, or at the end of it. The time of transition is that of the status, not of
/// the reason. The heartbeat of a condition that was there stays, for it alone is no change.
pub(super) fn put(status: &mut NodeStatus, said: Said, now: Timestamp) -> Before {
    let conditions = status.conditions.get_or_insert_default();
    let holds = if said.holds { "True" } else { "False" };
    let old = conditions.iter_mut().find(|condition| condition.type_ == said.type_);
    let before = match &old {
        None => Before::Absent,
        Some(old) if old.status == holds => Before::Same,
        Some(_) => Before::Other,
    };
    let transition = match (&old, before) {
        (Some(old), Before::Same) => old.last_transition_time.clone(),
        (_, Before::Same | Before::Absent | Before::Other) => None,
    };
    let condition = NodeCondition {
        type_: said.type_.to_owned(),
        status: holds.to_owned(),
        reason: Some(said.reason.into_owned()),
        message: Some(said.message),
        last_transition_time: transition.or(Some(Time(now))),
        last_heartbeat_time: old.as_ref().and_then(|old| old.last_heartbeat_time.clone()).or(Some(Time(now))),
    };
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    before
}

/// Errors as one text, each once: upstream's `Aggregate`. None for no errors.
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

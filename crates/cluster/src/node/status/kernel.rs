//! The conditions that follow from the kernel's log.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeStatus;

use super::conditions::{ConditionContent, ConditionStatus, put};
use crate::node::{KernelCondition, KernelConditions};

/// Sets the conditions, removes those that hostlet set earlier, or leaves them to whoever else sets them. There are no events: each
/// problem has one already.
pub(super) fn set(status: &mut NodeStatus, conditions: &KernelConditions, now: Timestamp) {
    match conditions {
        KernelConditions::NotOurs => {}
        KernelConditions::Reported(findings) => {
            for condition in KernelCondition::ALL {
                let finding = findings.get(&condition);
                let state = match finding {
                    Some(_) => ConditionStatus::True,
                    None => ConditionStatus::False,
                };
                let content = finding.cloned().unwrap_or_else(|| condition.absent());
                let content = ConditionContent {
                    type_: condition.name(),
                    status: state,
                    reason: Cow::Owned(content.reason),
                    message: content.message,
                };
                put(status, content, now);
            }
        }
        KernelConditions::Withdrawn => {
            let all = status.conditions.get_or_insert_default();
            all.retain(|condition| !is_kernels(&condition.type_));
        }
    }
}

/// Whether hostlet reports this condition as one of the kernel.
pub(super) fn is_reported(conditions: &KernelConditions, type_: &str) -> bool {
    match conditions {
        KernelConditions::Reported(_) => is_kernels(type_),
        KernelConditions::NotOurs | KernelConditions::Withdrawn => false,
    }
}

fn is_kernels(type_: &str) -> bool {
    KernelCondition::ALL.iter().any(|condition| condition.name() == type_)
}

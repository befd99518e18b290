//! Rejected pods and how they are reported. Reasons and messages are upstream's, so that people and tools recognize them.

use std::borrow::Cow;
use std::sync::Arc;

use hostlet_base::PodEvent;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::resources::qos_class;
use super::{PodPhase, StatusOverride, seen_at, whole_seconds};

/// Why a pod may not run on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// E.g. `OutOfcpu`.
    pub reason: Cow<'static, str>,
    /// Human-readable details.
    pub message: String,
}

impl Rejection {
    /// `reason` is in CamelCase for programs, `message` is for people.
    pub fn new(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }

    /// The event that reports it.
    pub fn event(&self) -> PodEvent {
        PodEvent::warning(self.reason.clone(), self.message.clone())
    }

    /// The final status of a pod that was admitted, and turned out not to fit.
    pub fn into_status(self) -> StatusOverride {
        StatusOverride {
            phase: PodPhase::Failed,
            message: status_message(&self.message),
            reason: self.reason.into_owned(),
            disruption: None,
        }
    }
}

fn status_message(why: &str) -> String {
    format!("Pod was rejected: {why}")
}

/// A pod that may not run on this node. The rejection is final even if the node changes: the pod's controller creates a
/// replacement.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedPod {
    /// The pod as its source has it.
    pub pod: Arc<Pod>,
    /// Its `Failed` status with the reason.
    pub status: Arc<PodStatus>,
    rejection: Rejection,
}

impl RejectedPod {
    /// The pod with the status of its rejection.
    pub fn new(pod: &Arc<Pod>, rejection: Rejection) -> Self {
        let status = PodStatus {
            phase: Some(PodPhase::Failed.as_str().to_owned()),
            reason: Some(rejection.reason.clone().into_owned()),
            message: Some(status_message(&rejection.message)),
            start_time: seen_at(pod).map(whole_seconds),
            qos_class: Some(qos_class(pod).as_str().to_owned()),
            observed_generation: pod.metadata.generation.filter(|generation| *generation != 0),
            ..PodStatus::default()
        };
        Self { pod: pod.clone(), status: Arc::new(status), rejection }
    }

    /// The event that reports it.
    pub fn event(&self) -> PodEvent {
        self.rejection.event()
    }

    /// The pod with the rejection as its status.
    pub fn with_status(&self) -> Pod {
        Pod { status: Some(PodStatus::clone(&self.status)), ..Pod::clone(&self.pod) }
    }
}

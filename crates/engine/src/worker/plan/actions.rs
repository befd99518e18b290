//! The actions of a plan. Decides nothing.

use std::borrow::Cow;
use std::time::Duration;

use hostlet_base::{ContainerId, SandboxId};
use hostlet_observe::pleg::PodStatus;
use hostlet_pod::ContainerRef;
use jiff::Timestamp;

use super::kill::Kill;
use super::leftovers::Leftovers;
use super::resize::Resize;

/// What to do about the pod's sandbox.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) enum SandboxPlan {
    /// It is fine.
    Keep(SandboxId),
    /// Stop everything of the pod, then create a new sandbox.
    Create {
        attempt: u32,
        /// What is wrong with the present one.
        reason: Cow<'static, str>,
    },
    /// Stop everything of the pod: nothing is to run.
    Stop,
}

/// A container to start.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct Start {
    /// Which one.
    pub(in crate::worker) container: ContainerRef,
    /// Created by an earlier sync that did not start it: only start it.
    pub(in crate::worker) adopt: Option<ContainerId>,
    /// Created earlier, never ran, and outdated: the new one takes its place and its attempt.
    pub(in crate::worker) replace: Option<ContainerId>,
}

/// A container that waits until it may be started again.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct BackingOff {
    /// Its name in the pod.
    pub(in crate::worker) name: String,
    /// The pause in force.
    pub(in crate::worker) pause: Duration,
    /// When the wait is over.
    pub(in crate::worker) until: Timestamp,
}

/// Back-off before the sandbox is re-created, as the ones before it did not last.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct SandboxWait {
    /// What is wrong with the present one.
    pub(in crate::worker) reason: Cow<'static, str>,
    /// The pause in force.
    pub(in crate::worker) pause: Duration,
    /// When it is over.
    pub(in crate::worker) until: Timestamp,
}

/// An instance to remove because all containers of the pod start again. Its log is kept.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct Reset {
    /// Which one.
    pub(in crate::worker) id: ContainerId,
    /// Its name in the pod.
    pub(in crate::worker) name: String,
    /// It may run, and has to be stopped first.
    pub(in crate::worker) stop: bool,
}

/// The actions that make a pod's containers match its spec, in the order of the fields.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::worker) struct Plan {
    /// Instances to remove one after the other, before the pod starts again. If there are any, nothing else is to be done.
    pub(in crate::worker) reset: Vec<Reset>,
    pub(in crate::worker) sandbox: SandboxPlan,
    /// Containers to stop in a sandbox that is kept.
    pub(in crate::worker) kill: Vec<Kill>,
    /// The resources to enforce for what runs.
    pub(in crate::worker) resize: Resize,
    /// Containers to start, in order.
    pub(in crate::worker) start: Vec<Start>,
    /// Containers that start once those before them are ready, in order. Nothing is done about them but to pull their images.
    pub(in crate::worker) later: Vec<ContainerRef>,
    /// Containers that would be started but wait.
    pub(in crate::worker) backing_off: Vec<BackingOff>,
    /// The sandbox would be re-created but waits.
    pub(in crate::worker) sandbox_wait: Option<SandboxWait>,
    /// What is no longer needed, last.
    pub(in crate::worker) leftovers: Leftovers,
    /// No container of the pod is started again: each has run to its end, or an init container has failed.
    pub(in crate::worker) has_ended: bool,
}

impl Plan {
    /// No action except for the sandbox.
    pub(super) fn with(sandbox: SandboxPlan) -> Self {
        Self {
            reset: Vec::new(),
            sandbox,
            kill: Vec::new(),
            resize: Resize::default(),
            start: Vec::new(),
            later: Vec::new(),
            backing_off: Vec::new(),
            sandbox_wait: None,
            leftovers: Leftovers::default(),
            has_ended: false,
        }
    }

    /// Whether something is to be started.
    pub(in crate::worker) fn has_starts(&self) -> bool {
        matches!(self.sandbox, SandboxPlan::Create { .. }) || !self.start.is_empty()
    }

    /// The containers that need their images, in the order in which they start.
    pub(in crate::worker) fn images(&self) -> impl Iterator<Item = &ContainerRef> {
        let now = self.start.iter().filter(|start| start.adopt.is_none()).map(|start| &start.container);
        now.chain(&self.later)
    }

    /// Whether there is nothing to do.
    pub(in crate::worker) fn is_empty(&self, observed: &PodStatus) -> bool {
        let sandbox_is_fine = match &self.sandbox {
            SandboxPlan::Keep(_) => true,
            SandboxPlan::Create { .. } => false,
            SandboxPlan::Stop => !observed.may_run(),
        };
        sandbox_is_fine
            && self.reset.is_empty()
            && self.kill.is_empty()
            && !self.resize.is_under_way
            && self.start.is_empty()
            && self.leftovers == Leftovers::default()
    }
}

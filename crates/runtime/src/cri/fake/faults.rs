//! Scripted faults: calls that are slow, fail, hang, or take effect despite an error.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::PodUid;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::super::{CriError, Operation};

/// The reported error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// [`CriError::Unreachable`].
    Unreachable,
    /// [`CriError::TimedOut`].
    TimedOut,
    /// [`CriError::NotFound`].
    NotFound,
    /// [`CriError::Unimplemented`].
    Unimplemented,
    /// [`CriError::Failed`] with this message.
    Failed(String),
}

impl Failure {
    pub(super) fn of(self, operation: Operation) -> CriError {
        match self {
            Self::Unreachable => CriError::Unreachable {
                operation,
                endpoint: "fake".to_owned(),
                message: "Connection refused".to_owned(),
            },
            Self::TimedOut => CriError::TimedOut { operation, deadline: Duration::from_secs(120) },
            Self::NotFound => CriError::NotFound { operation, message: "not found".to_owned() },
            Self::Unimplemented => CriError::Unimplemented { operation },
            Self::Failed(message) => CriError::Failed { operation, message },
        }
    }
}

/// A fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Delayed by this time. No effect if cancelled before.
    Delay(Duration),
    /// Fails after this time without effect.
    Fail {
        /// Delay of the error.
        after: Duration,
        /// The error.
        failure: Failure,
    },
    /// Reported as failed but takes effect: before, with or after the error. The name of a created object is reserved from
    /// the start.
    LateSuccess {
        /// Delay of the error; [`Duration::MAX`] for never.
        answer_after: Duration,
        /// The error.
        failure: Failure,
        /// Delay of the effect, even if the call was cancelled.
        lands_after: Duration,
    },
    /// Hangs until [`FaultPlan::release`]. No effect if cancelled before.
    Hang,
}

impl Fault {
    /// Fails at once, without effect.
    pub fn fail(message: &str) -> Self {
        Self::Fail { after: Duration::ZERO, failure: Failure::Failed(message.to_owned()) }
    }
}

/// A fault and the calls that it applies to.
#[derive(Clone, Debug)]
pub struct Rule {
    operation: Operation,
    pod: Option<PodUid>,
    skip: usize,
    times: Option<usize>,
    fault: Fault,
}

impl Rule {
    /// Applies `fault` to every call of this kind, until [`FaultPlan::clear`].
    pub fn new(operation: Operation, fault: Fault) -> Self {
        Self { operation, pod: None, skip: 0, times: None, fault }
    }

    /// Only calls for this pod. Unfiltered lists are for no pod.
    #[must_use]
    pub fn pod(self, pod: &PodUid) -> Self {
        Self { pod: Some(pod.clone()), ..self }
    }

    /// Skips the first `calls`.
    #[must_use]
    pub fn skip(self, calls: usize) -> Self {
        Self { skip: calls, ..self }
    }

    /// Applies to this many calls.
    #[must_use]
    pub fn times(self, calls: usize) -> Self {
        Self { times: Some(calls), ..self }
    }

    fn strikes(&mut self, operation: Operation, pod: Option<&PodUid>) -> Option<Fault> {
        if self.operation != operation || self.times == Some(0) {
            return None;
        }
        if self.pod.is_some() && self.pod.as_ref() != pod {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times = self.times.map(|left| left - 1);
        Some(self.fault.clone())
    }
}

/// The faults of one runtime. Cheap to clone; clones share one plan. The first matching rule applies.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    rules: Arc<Mutex<Vec<Rule>>>,
    /// A hung call waits for the next release.
    released: Arc<Notify>,
}

impl FaultPlan {
    /// Appends a rule.
    pub fn add(&self, rule: Rule) {
        self.rules().push(rule);
    }

    /// Removes all rules. Hanging calls remain.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// Releases all hanging calls.
    pub fn release(&self) {
        self.released.notify_waiters();
    }

    pub(super) fn next(&self, operation: Operation, pod: Option<&PodUid>) -> Option<Fault> {
        let mut rules = self.rules();
        let fault = rules.iter_mut().find_map(|rule| rule.strikes(operation, pod));
        rules.retain(|rule| rule.times != Some(0));
        fault
    }

    pub(super) async fn hang(&self) {
        self.released.notified().await;
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock()
    }
}

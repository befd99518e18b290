//! Scripted failures: which calls are slow, fail, hang, or take effect without saying so.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::super::{CriError, Operation};
use crate::types::PodUid;

/// How a call is reported to have failed.
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

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes so long, then does its work. Dropped before that, it has no effect.
    Delay(Duration),
    /// It fails after so long, without effect.
    Fail {
        /// When the failure is reported.
        after: Duration,
        /// What is reported.
        failure: Failure,
    },
    /// It is reported as failed, and takes effect all the same: earlier, at the same time or later. What it makes has its
    /// name reserved from the start.
    LateSuccess {
        /// When the failure is reported; [`Duration::MAX`] for never.
        answer_after: Duration,
        /// What is reported.
        failure: Failure,
        /// When the effect takes place, even if the caller is gone by then.
        lands_after: Duration,
    },
    /// It hangs until [`FaultPlan::release`], then does its work. Dropped before that, it has no effect.
    Hang,
}

impl Fault {
    /// Fails at once, without effect.
    pub fn fail(message: &str) -> Self {
        Self::Fail { after: Duration::ZERO, failure: Failure::Failed(message.to_owned()) }
    }
}

/// Which calls a fault befalls.
#[derive(Clone, Debug)]
pub struct Rule {
    operation: Operation,
    pod: Option<PodUid>,
    skip: usize,
    times: Option<usize>,
    fault: Fault,
}

impl Rule {
    /// `fault` befalls every such call, until [`FaultPlan::clear`].
    pub fn new(operation: Operation, fault: Fault) -> Self {
        Self { operation, pod: None, skip: 0, times: None, fault }
    }

    /// Only calls about this pod. Lists of everything are about no pod.
    #[must_use]
    pub fn pod(self, pod: &PodUid) -> Self {
        Self { pod: Some(pod.clone()), ..self }
    }

    /// Not the first `calls` of them.
    #[must_use]
    pub fn skip(self, calls: usize) -> Self {
        Self { skip: calls, ..self }
    }

    /// Only so many of them.
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

/// The faults of one runtime. Cheap to clone; all clones are one plan. The first rule that fits decides.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    rules: Arc<Mutex<Vec<Rule>>>,
    /// A hung call waits for the next release.
    released: Arc<Notify>,
}

impl FaultPlan {
    /// Adds a rule after the ones there are.
    pub fn add(&self, rule: Rule) {
        self.rules().push(rule);
    }

    /// Forgets all rules. Calls that hang go on hanging.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// Lets every call that hangs now do its work.
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

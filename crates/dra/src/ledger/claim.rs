//! One claim: the pods that use it, and each driver's part of it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;

use crate::{ClaimRef, Device};

/// A claim's namespace and name. As upstream, a claim that was deleted and created again waits until the old one is unprepared.
pub(crate) type ClaimKey = (String, String);

/// All operations of `skipNodeOperations`.
const ALL_OPERATIONS: &str = "*";

/// What drivers are asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `NodePrepareResources`.
    Prepare,
    /// `NodeUnprepareResources`.
    Unprepare,
}

impl Operation {
    /// The method, which is also the name in `skipNodeOperations`.
    pub fn method(self) -> &'static str {
        match self {
            Self::Prepare => "NodePrepareResources",
            Self::Unprepare => "NodeUnprepareResources",
        }
    }

    /// Whether a driver with these `skipNodeOperations` need not be called (KEP-5945).
    fn is_skipped(self, skipped: &[String]) -> bool {
        skipped.iter().any(|name| name == ALL_OPERATIONS || name == self.method())
    }
}

/// A claim as the API server has it: allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllocatedClaim {
    pub(crate) claim: ClaimRef,
    /// The drivers that devices were allocated of, with the operations that all of these devices skip.
    pub(crate) drivers: BTreeMap<String, Vec<String>>,
}

impl AllocatedClaim {
    /// The drivers that must prepare it.
    pub(crate) fn preparing_drivers(&self) -> impl Iterator<Item = &str> {
        let is_called = |(_, skipped): &(&String, &Vec<String>)| !Operation::Prepare.is_skipped(skipped);
        self.drivers.iter().filter(is_called).map(|(driver, _)| driver.as_str())
    }
}

/// What the drivers' parts of a claim shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Prepared, for the pods that use it.
    Prepared,
    /// Unprepared: its last pod ends. No pod is added anymore.
    Unprepared,
}

/// How far a driver's part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartState {
    /// The driver was never called for this claim.
    Untouched,
    /// A call is under way.
    UnderWay,
    /// A call was made, or may have been; whether it had an effect is not known.
    Uncertain,
    /// The part is what the goal says.
    Done,
}

/// A driver's part of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) state: PartState,
    /// The devices that it prepared.
    pub(crate) devices: Vec<Device>,
    /// `skipNodeOperations` of all its devices.
    pub(crate) skipped: Vec<String>,
    /// Why it is not done; `None` before the first attempt.
    pub(crate) error: Option<String>,
}

/// A claim that pods of this node use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) uid: String,
    pub(crate) pods: BTreeSet<PodUid>,
    pub(crate) goal: Goal,
    /// By the driver's name.
    pub(crate) parts: BTreeMap<String, Part>,
}

impl Claim {
    /// A claim that no driver was called for.
    pub(super) fn new(allocated: &AllocatedClaim) -> Self {
        let part = |skipped: &Vec<String>| Part {
            state: match Operation::Prepare.is_skipped(skipped) {
                true => PartState::Done,
                false => PartState::Untouched,
            },
            devices: Vec::new(),
            skipped: skipped.clone(),
            error: None,
        };
        Self {
            uid: allocated.claim.uid.clone(),
            pods: BTreeSet::new(),
            goal: Goal::Prepared,
            parts: allocated
                .drivers
                .iter()
                .map(|(driver, skipped)| (driver.clone(), part(skipped)))
                .collect(),
        }
    }

    /// Whether all drivers have prepared it.
    pub(crate) fn is_prepared(&self) -> bool {
        self.goal == Goal::Prepared && self.is_done()
    }

    /// Whether nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.parts.values().all(|part| part.state == PartState::Done)
    }

    /// Whether a driver is at work.
    pub(crate) fn is_under_way(&self) -> bool {
        self.parts.values().any(|part| part.state == PartState::UnderWay)
    }

    /// The drivers that are not called to do this, because all of their devices skip it.
    pub(crate) fn skipping(&self, operation: Operation) -> impl Iterator<Item = &str> {
        let is_skipping = move |(_, part): &(&String, &Part)| operation.is_skipped(&part.skipped);
        self.parts.iter().filter(is_skipping).map(|(driver, _)| driver.as_str())
    }

    /// Why it is not what it shall be; `None` without a failure.
    pub(crate) fn error(&self) -> Option<&str> {
        self.parts.values().find_map(|part| part.error.as_deref())
    }

    /// Whether the end of a pod that uses it ends it now.
    pub(crate) fn is_ended_by_last_pod(&self) -> bool {
        self.goal == Goal::Prepared && self.pods.len() <= 1 && !self.is_under_way()
    }

    /// From now on it is unprepared. No call may be under way.
    pub(super) fn end(&mut self) {
        self.goal = Goal::Unprepared;
        for part in self.parts.values_mut() {
            part.error = None;
            part.state = match part.state {
                PartState::Untouched => PartState::Done,
                PartState::Done | PartState::Uncertain | PartState::UnderWay => {
                    match Operation::Unprepare.is_skipped(&part.skipped) {
                        true => PartState::Done,
                        false => PartState::Uncertain,
                    }
                }
            };
        }
    }

    /// The devices that a container gets that uses this request of the claim; `None` is the whole claim.
    pub(crate) fn devices<'c>(
        &'c self,
        request: Option<&'c str>,
    ) -> impl Iterator<Item = (&'c str, &'c Device)> {
        let of_part = move |(driver, part): (&'c String, &'c Part)| {
            part.devices.iter().map(move |device| (driver.as_str(), device))
        };
        self.parts.iter().flat_map(of_part).filter(move |(_, device)| device.is_for(request))
    }
}

//! All claims, and what may be done about them. Calls about one claim never overlap in a contradiction: a claim is unprepared only when
//! no driver prepares it, and takes no pod while it is unprepared. Pure.

use std::collections::BTreeMap;

use hostlet_base::PodUid;

use super::claim::{AllocatedClaim, Claim, ClaimKey, Goal, Operation, Part, PartState};
use crate::call::{Answers, CallError};
use crate::{ClaimRef, Device};

/// Calls that must be made, by driver: the claims of each.
pub(crate) type Batches = BTreeMap<String, Vec<ClaimRef>>;

/// Why a pod cannot use a claim now. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttachError {
    #[error(
        "old ResourceClaim with same name {name} and different UID {uid} still exists (previous pod force-deleted?!)"
    )]
    Old { name: String, uid: String },
    #[error("ResourceClaim {name} is being unprepared")]
    Unpreparing { name: String },
}

/// Why the claims of a pod are not what they shall be: upstream's text of the first failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OperationError(pub(crate) String);

/// Why a claim cannot be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// There is none.
    #[error("this node has no claim {0}")]
    Unknown(String),
    /// Pods use it.
    #[error("pods use claim {0}: delete them first")]
    InUse(String),
    /// Every driver that it waits for is there.
    #[error("claim {0} waits for no driver that is missing: hostlet is unpreparing it")]
    NotStuck(String),
}

/// The claims by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    claims: BTreeMap<ClaimKey, Claim>,
}

impl Ledger {
    pub(super) fn restored(claims: BTreeMap<ClaimKey, Claim>) -> Self {
        Self { claims }
    }

    pub(crate) fn claims(&self) -> &BTreeMap<ClaimKey, Claim> {
        &self.claims
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The claims that a pod uses.
    pub(crate) fn of_pod(&self, pod: &PodUid) -> impl Iterator<Item = (&ClaimKey, &Claim)> {
        self.claims.iter().filter(move |(_, claim)| claim.pods.contains(pod))
    }

    /// Records that a pod uses these claims: all of them or, after an error, none. Returns those that it did not use before.
    pub(crate) fn attach(
        &mut self,
        pod: &PodUid,
        claims: &[AllocatedClaim],
    ) -> Result<Vec<ClaimKey>, AttachError> {
        for allocated in claims {
            let name = allocated.claim.name.clone();
            match self.get(&allocated.claim.namespace, &allocated.claim.name) {
                None => {}
                Some(known) if known.uid != allocated.claim.uid => {
                    return Err(AttachError::Old { name, uid: known.uid.clone() });
                }
                Some(known) if known.goal == Goal::Unprepared => {
                    return Err(AttachError::Unpreparing { name });
                }
                Some(_) => {}
            }
        }
        let mut added = Vec::new();
        for allocated in claims {
            let key = (allocated.claim.namespace.clone(), allocated.claim.name.clone());
            let claim = self.claims.entry(key.clone()).or_insert_with(|| Claim::new(allocated));
            if claim.pods.insert(pod.clone()) {
                added.push(key);
            }
        }
        Ok(added)
    }

    /// Undoes [`Ledger::attach`], which could not be recorded: nobody was called because of it.
    pub(crate) fn revert(&mut self, pod: &PodUid, added: &[ClaimKey]) {
        for key in added {
            if let Some(claim) = self.claims.get_mut(key) {
                claim.pods.remove(pod);
            }
        }
        let is_untouched = |part: &Part| match part.state {
            PartState::Untouched | PartState::Done => part.devices.is_empty(),
            PartState::UnderWay | PartState::Uncertain => false,
        };
        self.claims.retain(|_, claim| !claim.pods.is_empty() || !claim.parts.values().all(is_untouched));
    }

    /// Records that a pod does not use its claims anymore. A claim that it used last shall be unprepared, as soon as no call is under
    /// way. Returns whether anything changed.
    pub(crate) fn detach(&mut self, pod: &PodUid) -> bool {
        let mut is_changed = false;
        for claim in self.claims.values_mut().filter(|claim| claim.pods.contains(pod)) {
            if claim.is_ended_by_last_pod() {
                claim.end();
                is_changed = true;
            } else if claim.goal == Goal::Prepared && claim.pods.len() > 1 {
                claim.pods.remove(pod);
                is_changed = true;
            }
        }
        let before = self.claims.len();
        self.remove_unprepared();
        is_changed || self.claims.len() != before
    }

    /// The calls that a pod's claims need. They count as under way. A driver that is not registered is recorded as the reason why
    /// nothing happens.
    pub(crate) fn begin(
        &mut self,
        pod: &PodUid,
        operation: Operation,
        is_registered: impl Fn(&str) -> bool,
    ) -> Batches {
        let goal = goal_of(operation);
        let mut batches = Batches::new();
        let claims = self.claims.iter_mut();
        for ((namespace, name), claim) in
            claims.filter(|(_, claim)| claim.goal == goal && claim.pods.contains(pod))
        {
            for (driver, part) in &mut claim.parts {
                match part.state {
                    PartState::Done | PartState::UnderWay => continue,
                    PartState::Untouched | PartState::Uncertain => {}
                }
                if !is_registered(driver) {
                    part.error = Some(not_registered(driver));
                    continue;
                }
                part.state = PartState::UnderWay;
                let (namespace, name, uid) = (namespace.clone(), name.clone(), claim.uid.clone());
                batches.entry(driver.clone()).or_default().push(ClaimRef { namespace, name, uid });
            }
        }
        batches
    }

    /// Takes a driver's answer to `NodePrepareResources` for these claims.
    pub(crate) fn prepare_ended(
        &mut self,
        driver: &str,
        claims: &[ClaimRef],
        answer: Result<Answers<Vec<Device>>, CallError>,
    ) {
        self.ended(driver, claims, Operation::Prepare, answer, |part, devices| part.devices = devices);
    }

    /// Takes a driver's answer to `NodeUnprepareResources` for these claims. A claim that all drivers have unprepared is removed.
    pub(crate) fn unprepare_ended(
        &mut self,
        driver: &str,
        claims: &[ClaimRef],
        answer: Result<Answers<()>, CallError>,
    ) {
        self.ended(driver, claims, Operation::Unprepare, answer, |part, ()| part.devices.clear());
        self.remove_unprepared();
    }

    fn ended<T>(
        &mut self,
        driver: &str,
        claims: &[ClaimRef],
        operation: Operation,
        answer: Result<Answers<T>, CallError>,
        take: impl Fn(&mut Part, T),
    ) {
        let method = operation.method();
        let (mut answers, failed) = match answer {
            Ok(answers) => (answers, None),
            Err(error) => (Answers::new(), Some(format!("{method}: {error}"))),
        };
        let unknown = answers.keys().find(|uid| !claims.iter().any(|claim| claim.uid == **uid));
        let failed = failed
            .or_else(|| unknown.map(|uid| format!("{method} returned result for unknown claim UID {uid}")));
        let skipped = claims.iter().filter(|claim| !answers.contains_key(&claim.uid)).count();
        for claim in claims {
            let key = (claim.namespace.clone(), claim.name.clone());
            let Some(part) = self.claims.get_mut(&key).and_then(|known| known.parts.get_mut(driver)) else {
                continue;
            };
            let answer = match (&failed, answers.remove(&claim.uid)) {
                (Some(error), _) => Err(error.clone()),
                (None, None) => Err(format!("{method} skipped {skipped} ResourceClaims")),
                (None, Some(Err(error))) => {
                    Err(format!("{method} failed for ResourceClaim {}: {error}", claim.name))
                }
                (None, Some(Ok(answer))) => Ok(answer),
            };
            match answer {
                Ok(answer) => {
                    (part.state, part.error) = (PartState::Done, None);
                    take(part, answer);
                }
                Err(error) => (part.state, part.error) = (PartState::Uncertain, Some(error)),
            }
        }
    }

    /// Whether all of a pod's claims are what they shall be, or why not; `None` while drivers are at work on one of them.
    pub(crate) fn outcome(&self, pod: &PodUid, operation: Operation) -> Option<Result<(), OperationError>> {
        let goal = goal_of(operation);
        let (mut is_done, mut error) = (true, None);
        for (_, claim) in self.of_pod(pod) {
            if claim.is_under_way() {
                return None;
            }
            if claim.goal != goal || !claim.is_done() {
                is_done = false;
                error = error.or_else(|| claim.error());
            }
        }
        let failed = || OperationError(error.unwrap_or("the claims of the pod changed").to_owned());
        Some(if is_done { Ok(()) } else { Err(failed()) })
    }

    /// Gives up what drivers that are not registered have of a claim whose pods have all ended. Returns these drivers.
    pub(crate) fn forget(
        &mut self,
        key: &ClaimKey,
        is_registered: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, ForgetError> {
        let name = || format!("{}/{}", key.0, key.1);
        let claim = self.claims.get_mut(key).ok_or_else(|| ForgetError::Unknown(name()))?;
        if claim.goal == Goal::Prepared {
            return Err(ForgetError::InUse(name()));
        }
        let mut forgotten = Vec::new();
        for (driver, part) in &mut claim.parts {
            if part.state == PartState::Uncertain && !is_registered(driver) {
                (part.state, part.error) = (PartState::Done, None);
                forgotten.push(driver.clone());
            }
        }
        if forgotten.is_empty() {
            return Err(ForgetError::NotStuck(name()));
        }
        self.remove_unprepared();
        Ok(forgotten)
    }

    fn remove_unprepared(&mut self) {
        self.claims.retain(|_, claim| claim.goal == Goal::Prepared || !claim.is_done());
    }
}

/// Upstream's text.
pub(crate) fn not_registered(driver: &str) -> String {
    format!("DRA driver {driver} is not registered")
}

fn goal_of(operation: Operation) -> Goal {
    match operation {
        Operation::Prepare => Goal::Prepared,
        Operation::Unprepare => Goal::Unprepared,
    }
}

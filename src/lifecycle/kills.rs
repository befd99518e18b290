//! The door through which pods are ended for good: what each lifecycle was last told, and by when it should have ended. Pure:
//! `now` is an argument; delivers nothing itself.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::KillRequest;
use crate::pod::PodKill;
use crate::types::PodUid;

/// How long a killed pod may take at least, whatever its grace period (upstream `killPodNow`).
const SHORTEST: Duration = Duration::from_secs(10);

/// A kill that a lifecycle was given.
#[derive(Debug)]
struct Delivered {
    kill: PodKill,
    /// Closed once no container of the pod runs.
    done: oneshot::Receiver<()>,
    /// When it takes too long; none once that was reported.
    overdue: Option<Instant>,
}

/// The kills that are wanted, and those that were delivered.
#[derive(Debug, Default)]
pub(super) struct Kills {
    wanted: BTreeMap<PodUid, PodKill>,
    delivered: BTreeMap<PodUid, Delivered>,
}

impl Kills {
    /// These are wanted from now on, and no others.
    pub(super) fn want(&mut self, kills: BTreeMap<PodUid, PodKill>) {
        self.wanted = kills;
    }

    /// Those whose kill was delivered and is wanted no more: if such a pod is still desired, it is another one of that UID.
    pub(super) fn take_withdrawn(&mut self) -> Vec<PodUid> {
        let withdrawn = self.delivered.keys().filter(|uid| !self.wanted.contains_key(*uid));
        let withdrawn: Vec<PodUid> = withdrawn.cloned().collect();
        for uid in &withdrawn {
            self.delivered.remove(uid);
        }
        withdrawn
    }

    /// Forgets what was delivered to lifecycles that are no more: the next one of the UID has not been told.
    pub(super) fn keep(&mut self, is_known: impl Fn(&PodUid) -> bool) {
        self.delivered.retain(|uid, _| is_known(uid));
    }

    /// The kills that are wanted and that these pods, which have a lifecycle, have not been given as they are now.
    pub(super) fn due(&self, is_known: impl Fn(&PodUid) -> bool) -> Vec<PodUid> {
        let is_delivered =
            |uid: &PodUid, kill: &PodKill| self.delivered.get(uid).is_some_and(|d| d.kill == *kill);
        let due = self.wanted.iter().filter(|(uid, kill)| is_known(uid) && !is_delivered(uid, kill));
        due.map(|(uid, _)| uid.clone()).collect()
    }

    /// The request to give to the lifecycle of a pod; none if no kill is wanted. Follow it with [`Kills::delivered`].
    pub(super) fn request(&mut self, uid: &PodUid) -> Option<KillRequest> {
        let kill = self.wanted.get(uid)?.clone();
        let (done, ended) = oneshot::channel();
        let request = KillRequest {
            done: Some(done),
            evict: kill.evict,
            status: Some(kill.status.clone()),
            grace_seconds: kill.grace_seconds,
        };
        self.delivered.insert(uid.clone(), Delivered { kill, done: ended, overdue: None });
        Some(request)
    }

    /// The lifecycle has taken the request, and its pod has so long.
    pub(super) fn delivered(&mut self, uid: &PodUid, grace_seconds: Option<i64>, now: Instant) {
        let (Some(delivered), Some(grace)) = (self.delivered.get_mut(uid), grace_seconds) else { return };
        let grace = Duration::from_secs(grace.max(0).unsigned_abs());
        delivered.overdue = Some(now + grace.saturating_add(grace / 2).max(SHORTEST).min(LONGEST));
    }

    /// When the next pod takes too long.
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        self.delivered.values().filter_map(|delivered| delivered.overdue).min()
    }

    /// The pods that take too long, each once.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<PodUid> {
        let mut overdue = Vec::new();
        for (uid, delivered) in &mut self.delivered {
            if delivered.overdue.take_if(|overdue| *overdue <= now).is_some()
                && delivered.done.try_recv() == Err(TryRecvError::Empty)
            {
                overdue.push(uid.clone());
            }
        }
        overdue
    }
}

/// Grace periods come from outside; an [`Instant`] has an end.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

//! Kills of pods that their source still names: which were requested, which were delivered to a lifecycle, and by when the pod
//! should have terminated. Pure: `now` is an argument; delivers nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;
use hostlet_pod::{PodKill, patience};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::KillRequest;

/// A kill that was delivered to a lifecycle.
#[derive(Debug)]
struct Delivered {
    kill: PodKill,
    /// Closed once no container of the pod runs.
    done: oneshot::Receiver<()>,
    /// When the pod becomes overdue; none once that was reported.
    overdue: Option<Instant>,
}

/// The requested kills and the delivered ones.
#[derive(Debug, Default)]
pub(super) struct Kills {
    requested: BTreeMap<PodUid, PodKill>,
    delivered: BTreeMap<PodUid, Delivered>,
    /// The pods with a delivered kill whose lifecycle has finished.
    ended: watch::Sender<BTreeSet<PodUid>>,
}

impl Kills {
    /// Replaces the requested kills.
    pub(super) fn set_requested(&mut self, kills: BTreeMap<PodUid, PodKill>) {
        self.requested = kills;
    }

    /// Takes the pods whose delivered kill is no longer requested: if such a pod is still desired, it is a new pod of that UID.
    pub(super) fn take_withdrawn(&mut self) -> Vec<PodUid> {
        let withdrawn = self.delivered.keys().filter(|uid| !self.requested.contains_key(*uid));
        let withdrawn: Vec<PodUid> = withdrawn.cloned().collect();
        for uid in &withdrawn {
            self.delivered.remove(uid);
        }
        self.forget_ended();
        withdrawn
    }

    /// Forgets what was delivered to lifecycles that no longer exist: a new lifecycle of the same UID has not received the kill.
    pub(super) fn retain(&mut self, is_known: impl Fn(&PodUid) -> bool) {
        self.delivered.retain(|uid, _| is_known(uid));
        self.forget_ended();
    }

    /// The lifecycle of a pod has finished.
    pub(super) fn ended(&mut self, uid: &PodUid) {
        if self.delivered.contains_key(uid) {
            self.ended.send_if_modified(|ended| ended.insert(uid.clone()));
        }
    }

    /// The pods with a delivered kill whose lifecycle has finished.
    pub(super) fn all_ended(&self) -> watch::Receiver<BTreeSet<PodUid>> {
        self.ended.subscribe()
    }

    fn forget_ended(&self) {
        self.ended.send_if_modified(|ended| {
            let before = ended.len();
            ended.retain(|uid| self.delivered.contains_key(uid));
            ended.len() != before
        });
    }

    /// The pods with a lifecycle whose requested kill has not been delivered in its present form.
    pub(super) fn due(&self, is_known: impl Fn(&PodUid) -> bool) -> Vec<PodUid> {
        let is_delivered =
            |uid: &PodUid, kill: &PodKill| self.delivered.get(uid).is_some_and(|d| d.kill == *kill);
        let due = self.requested.iter().filter(|(uid, kill)| is_known(uid) && !is_delivered(uid, kill));
        due.map(|(uid, _)| uid.clone()).collect()
    }

    /// The request for the lifecycle of a pod; none if no kill is requested. Call [`Kills::delivered`] next.
    pub(super) fn request(&mut self, uid: &PodUid) -> Option<KillRequest> {
        let kill = self.requested.get(uid)?.clone();
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

    /// Records that the lifecycle accepted the request, with this grace period in seconds. The pod becomes overdue after one
    /// and a half grace periods, 10 s at least (upstream `killPodNow`).
    pub(super) fn delivered(&mut self, uid: &PodUid, grace_seconds: Option<i64>, now: Instant) {
        let (Some(delivered), Some(grace)) = (self.delivered.get_mut(uid), grace_seconds) else { return };
        delivered.overdue = Some(now + patience(grace));
    }

    /// When the next pod becomes overdue.
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        self.delivered.values().filter_map(|delivered| delivered.overdue).min()
    }

    /// Takes the overdue pods; each is returned once.
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

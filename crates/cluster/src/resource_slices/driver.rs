//! What hostlet knows about one driver: its instances, its stream, and its last word. Pure: takes `now`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_plugins::{InstanceId, PluginEvent, PluginInstance};
use jiff::Timestamp;
use tokio::time::Instant;

use super::device::Inventory;
use super::pace::Pace;
use super::reporting::reports_devices;

/// How long the slices of a driver without an instance that can be reached remain: the time of a restart. The stock kubelet's delay. Also the
/// minimum time between deletions of what a rejected driver publishes again and again.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// Whether a driver is on this node.
#[derive(Clone, Debug)]
enum Presence {
    /// Its registered instances; never empty. The newest that can be reached serves, or without one the newest.
    Registered { instances: BTreeMap<InstanceId, Instance>, unreachable: Option<Instant> },
    /// It has none since this time, or since hostlet first saw its slices.
    Gone(Instant),
    /// hostlet rejected it. What it publishes is deleted, not before this time.
    Rejected(Instant),
}

/// A registered instance.
#[derive(Clone, Debug)]
struct Instance {
    plugin: Arc<PluginInstance>,
    /// Whether its service can be reached.
    is_connected: bool,
}

/// What a driver said last in this run of hostlet.
#[derive(Clone, Debug, Default)]
pub(super) enum Word {
    /// Nothing yet: what an earlier run published remains.
    #[default]
    Nothing,
    /// The driver does not report devices this way.
    Unsupported,
    /// The devices that it reports.
    Said(Arc<Inventory>),
}

/// The stream of the serving instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none.
    #[default]
    Closed,
    /// It is being opened.
    Connecting,
    Open,
    /// It failed, and is opened again at this time.
    Waiting(Instant),
    /// The driver ended it after it had said everything. It is opened again at this time, in case that was a restart.
    Ended(Instant),
    /// The instance does not report devices this way.
    Unsupported,
}

/// What the slices of a driver must be.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    Leave,
    /// None.
    Nothing,
    Devices(Arc<Inventory>),
}

#[derive(Clone, Debug)]
pub(super) struct Driver {
    presence: Presence,
    word: Word,
    /// When it said that.
    pub(super) said_at: Option<Timestamp>,
    pub(super) link: Link,
    /// Why the stream ended last; `None` after a message.
    pub(super) stream_error: Option<String>,
    /// Why the slices could not be written; `None` after success.
    pub(super) publish_error: Option<String>,
    /// What cannot be published because of the server.
    pub(super) left_out: super::device::Problems,
    /// Number of slices that hostlet published.
    pub(super) slices: usize,
    /// Number of slices that the driver published by itself.
    pub(super) own_slices: usize,
    pub(super) pace: Pace,
}

impl Driver {
    /// A driver without an instance.
    pub(super) fn deregistered(now: Instant) -> Self {
        Self {
            presence: Presence::Gone(now),
            word: Word::Nothing,
            said_at: None,
            link: Link::Closed,
            stream_error: None,
            publish_error: None,
            left_out: super::device::Problems::default(),
            slices: 0,
            own_slices: 0,
            pace: Pace::default(),
        }
    }

    /// Takes a registration, de-registration or rejection.
    pub(super) fn changed(&mut self, event: PluginEvent, now: Instant) {
        let serving = self.serving().map(|instance| instance.id);
        match event {
            PluginEvent::Registered(plugin) => {
                let (id, instance) = (plugin.id, Instance { plugin, is_connected: true });
                match &mut self.presence {
                    Presence::Registered { instances, .. } => drop(instances.insert(id, instance)),
                    Presence::Gone(_) | Presence::Rejected(_) => {
                        let instances = BTreeMap::from([(id, instance)]);
                        self.presence = Presence::Registered { instances, unreachable: None };
                    }
                }
            }
            PluginEvent::Deregistered(plugin) => {
                if let Presence::Registered { instances, unreachable } = &mut self.presence {
                    instances.remove(&plugin.id);
                    if instances.is_empty() {
                        self.presence = Presence::Gone(unreachable.unwrap_or(now));
                    }
                }
            }
            PluginEvent::Disconnected(plugin) => self.reached(plugin.id, false),
            PluginEvent::Connected(plugin) => self.reached(plugin.id, true),
            PluginEvent::Rejected { .. } => match &self.presence {
                // Another instance serves, or it was rejected before.
                Presence::Registered { .. } | Presence::Rejected(_) => {}
                Presence::Gone(_) => self.presence = Presence::Rejected(now),
            },
        }
        if let Presence::Registered { instances, unreachable } = &mut self.presence {
            let is_reachable = instances.values().any(|instance| instance.is_connected);
            *unreachable = if is_reachable { None } else { unreachable.or(Some(now)) };
        }
        if self.serving().map(|instance| instance.id) != serving {
            (self.link, self.stream_error) = (Link::Closed, None);
        }
        self.pace.changed(now);
    }

    /// Notes whether the service of an instance can be reached.
    fn reached(&mut self, id: InstanceId, is_connected: bool) {
        if let Presence::Registered { instances, .. } = &mut self.presence
            && let Some(instance) = instances.get_mut(&id)
        {
            instance.is_connected = is_connected;
        }
    }

    /// The instance that serves.
    pub(super) fn serving(&self) -> Option<&Arc<PluginInstance>> {
        match &self.presence {
            Presence::Registered { instances, .. } => {
                let connected = instances.values().rev().find(|instance| instance.is_connected);
                connected.or_else(|| instances.values().next_back()).map(|instance| &instance.plugin)
            }
            Presence::Gone(_) | Presence::Rejected(_) => None,
        }
    }

    /// Whether an instance of it can be reached.
    pub(super) fn is_reachable(&self) -> bool {
        match &self.presence {
            Presence::Registered { unreachable, .. } => unreachable.is_none(),
            Presence::Gone(_) | Presence::Rejected(_) => false,
        }
    }

    /// Whether the serving instance may report its devices.
    pub(super) fn is_reporting(&self) -> bool {
        self.serving()
            .is_some_and(|instance| instance.versions.iter().any(|version| reports_devices(version)))
    }

    /// Whether this instance serves; what others say is outdated.
    pub(super) fn is_serving(&self, id: InstanceId) -> bool {
        self.serving().is_some_and(|instance| instance.id == id)
    }

    /// Takes the word of the serving instance, said at this time. Returns whether it differs from the last one.
    pub(super) fn said(&mut self, word: Word, at: Timestamp, now: Instant) -> bool {
        let is_same = match (&self.word, &word) {
            (Word::Nothing, Word::Nothing) | (Word::Unsupported, Word::Unsupported) => true,
            (Word::Said(old), Word::Said(new)) => old == new,
            (Word::Nothing | Word::Unsupported | Word::Said(_), _) => false,
        };
        (self.said_at, self.stream_error) = (Some(at), None);
        if !is_same {
            self.word = word;
            self.pace.changed(now);
        }
        !is_same
    }

    /// Its devices as of its last word.
    pub(super) fn inventory(&self) -> Option<&Arc<Inventory>> {
        match &self.word {
            Word::Said(inventory) => Some(inventory),
            Word::Nothing | Word::Unsupported => None,
        }
    }

    /// What the slices that hostlet published of it must be.
    pub(super) fn goal(&self, now: Instant) -> Goal {
        if self.is_expired(now) {
            return Goal::Nothing;
        }
        match (&self.presence, &self.word) {
            (Presence::Rejected(_), _) => Goal::Nothing,
            // It publishes its devices by itself, whatever an earlier version of it reported.
            (Presence::Registered { .. }, _) if !self.is_reporting() => Goal::Nothing,
            (Presence::Registered { .. } | Presence::Gone(_), Word::Nothing) => Goal::Leave,
            (Presence::Registered { .. } | Presence::Gone(_), Word::Unsupported) => Goal::Nothing,
            (Presence::Registered { .. } | Presence::Gone(_), Word::Said(inventory)) => {
                Goal::Devices(inventory.clone())
            }
        }
    }

    /// When its slices must be deleted, also those that it published by itself, because no instance of it serves pods here; `None` if
    /// one does.
    fn expires(&self) -> Option<Instant> {
        match &self.presence {
            Presence::Registered { unreachable, .. } => unreachable.map(|since| since + GRACE),
            Presence::Gone(since) => Some(*since + GRACE),
            Presence::Rejected(not_before) => Some(*not_before),
        }
    }

    /// Whether the slices that it published by itself must be deleted now.
    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.expires().is_some_and(|expires| expires <= now)
    }

    /// The slices that it published by itself were deleted.
    pub(super) fn wiped(&mut self, now: Instant) {
        if let Presence::Rejected(not_before) = &mut self.presence {
            *not_before = now + GRACE;
        }
    }

    /// Whether nothing of it must be remembered once its slices are deleted.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        match &self.presence {
            Presence::Registered { .. } | Presence::Rejected(_) => false,
            Presence::Gone(_) => self.slices == 0 && self.own_slices == 0 && self.is_expired(now),
        }
    }

    /// When to reconcile its slices: after a change, or when they expire.
    pub(super) fn due(&self) -> Option<Instant> {
        let expires = match &self.presence {
            Presence::Rejected(_) if self.own_slices == 0 => None,
            Presence::Registered { .. } if self.slices == 0 && self.own_slices == 0 => None,
            Presence::Registered { .. } | Presence::Gone(_) | Presence::Rejected(_) => self.expires(),
        };
        let expires = expires.map(|expires| self.pace.earliest().map_or(expires, |at| at.max(expires)));
        [self.pace.due(), expires].into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;

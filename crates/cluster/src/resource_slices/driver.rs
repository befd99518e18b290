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
mod tests {
    use super::*;

    fn instance(id: u64) -> Arc<PluginInstance> {
        Arc::new(PluginInstance {
            id: InstanceId(id),
            name: "d".to_owned(),
            endpoint: "/d.sock".into(),
            versions: vec!["1.0.0".to_owned()],
            socket: "/reg.sock".into(),
            since: Timestamp::UNIX_EPOCH,
        })
    }

    fn serving(driver: &Driver) -> Option<u64> {
        driver.serving().map(|instance| instance.id.0)
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_instance_serves_and_the_older_one_again_after_it() {
        let now = Instant::now();
        let mut driver = Driver::deregistered(now);
        for id in [1, 2] {
            driver.changed(PluginEvent::Registered(instance(id)), now);
            assert_eq!(serving(&driver), Some(id));
        }
        driver.link = Link::Open;
        driver.changed(PluginEvent::Deregistered(instance(1)), now);
        assert_eq!((serving(&driver), &driver.link), (Some(2), &Link::Open), "its stream stays");
        driver.changed(PluginEvent::Registered(instance(3)), now);
        assert_eq!(driver.link, Link::Closed);
        driver.changed(PluginEvent::Deregistered(instance(3)), now);
        assert_eq!(serving(&driver), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_word_remains_until_the_driver_is_gone_for_long() {
        let now = Instant::now();
        let mut driver = Driver::deregistered(now);
        driver.changed(PluginEvent::Registered(instance(1)), now);
        assert!(matches!(driver.goal(now + GRACE * 9), Goal::Leave), "a silent driver wipes nothing");
        let said = || Word::Said(Arc::new(Inventory::default()));
        assert!(driver.said(said(), Timestamp::UNIX_EPOCH, now));
        assert!(!driver.said(said(), Timestamp::UNIX_EPOCH, now), "the same again");
        driver.changed(PluginEvent::Deregistered(instance(1)), now);
        assert!(matches!(driver.goal(now + GRACE / 2), Goal::Devices(_)));
        assert!(matches!(driver.goal(now + GRACE), Goal::Nothing) && driver.is_forgotten(now + GRACE));
        driver.changed(PluginEvent::Registered(instance(2)), now + GRACE / 2);
        assert!(matches!(driver.goal(now + GRACE * 2), Goal::Devices(_)), "it came back in time");
        driver.said(Word::Unsupported, Timestamp::UNIX_EPOCH, now);
        assert!(matches!(driver.goal(now), Goal::Nothing), "it does not report devices any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_cannot_be_reached_is_gone_for_its_slices() {
        let now = Instant::now();
        let mut driver = Driver::deregistered(now);
        for id in [1, 2] {
            driver.changed(PluginEvent::Registered(instance(id)), now);
        }
        driver.said(Word::Said(Arc::new(Inventory::default())), Timestamp::UNIX_EPOCH, now);
        (driver.slices, driver.link) = (1, Link::Open);
        driver.changed(PluginEvent::Disconnected(instance(2)), now);
        assert_eq!(
            (serving(&driver), &driver.link),
            (Some(1), &Link::Closed),
            "the other one can be reached"
        );
        assert!(driver.is_reachable() && !driver.is_expired(now + GRACE));
        driver.changed(PluginEvent::Disconnected(instance(1)), now);
        driver.changed(PluginEvent::Deregistered(instance(1)), now + GRACE / 2);
        driver.pace.started(now + GRACE / 2);
        assert_eq!((serving(&driver), driver.is_reachable()), (Some(2), false));
        assert!(matches!(driver.goal(now + GRACE / 2), Goal::Devices(_)));
        assert_eq!(driver.due(), Some(now + GRACE), "counted from when the last one was lost");
        assert!(matches!(driver.goal(now + GRACE), Goal::Nothing) && !driver.is_forgotten(now + GRACE));
        driver.slices = 0;
        assert_eq!(driver.due(), None, "nothing is left to do");
        driver.changed(PluginEvent::Connected(instance(2)), now + GRACE);
        assert!(driver.is_reachable() && matches!(driver.goal(now + GRACE * 9), Goal::Devices(_)));
        driver.changed(PluginEvent::Disconnected(instance(2)), now + GRACE);
        driver.changed(PluginEvent::Registered(instance(3)), now + GRACE * 2);
        assert_eq!((serving(&driver), driver.is_expired(now + GRACE * 9)), (Some(3), false));
    }

    #[tokio::test(start_paused = true)]
    async fn slices_of_an_unknown_driver_expire() {
        let now = Instant::now();
        let driver = Driver::deregistered(now);
        assert!(matches!(driver.goal(now), Goal::Leave));
        assert!(matches!(driver.goal(now + GRACE), Goal::Nothing));
    }

    #[tokio::test(start_paused = true)]
    async fn slices_of_a_rejected_driver_go_at_once_and_return_in_vain() {
        let now = Instant::now();
        let rejected = || PluginEvent::Rejected { name: "d".to_owned() };
        let mut driver = Driver::deregistered(now);
        driver.changed(rejected(), now);
        driver.pace.started(now);
        assert_eq!((driver.is_expired(now), driver.due()), (true, None), "it has none yet");
        driver.own_slices = 2;
        assert!(driver.due().is_some_and(|due| due <= now + super::super::pace::INTERVAL));
        driver.wiped(now);
        assert_eq!((driver.is_expired(now), driver.due()), (false, Some(now + GRACE)), "they came back");
        driver.changed(rejected(), now + GRACE / 2);
        assert!(!driver.is_expired(now + GRACE / 2) && driver.is_expired(now + GRACE));
        assert!(!driver.is_forgotten(now + GRACE * 9), "it may publish again");
        driver.changed(PluginEvent::Registered(instance(1)), now);
        driver.changed(rejected(), now);
        assert!(!driver.is_expired(now + GRACE * 9), "the registered instance serves");
    }
}

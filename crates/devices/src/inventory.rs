//! The device plugins and their devices: who serves a resource, which devices it has, what happens while nobody does. Pure: is told
//! the time, and calls no plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use crate::client::{DevicePlugin, PluginOptions};
use crate::device::{Device, DeviceIds, DeviceList, Health};
use crate::error::NotYet;

/// How long a resource without a plugin remains in the capacity of the node (upstream `endpointStopGracePeriod`).
pub(crate) const GRACE: Duration = Duration::from_secs(5 * 60);

/// How long pods wait for a plugin that went away.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long after the host booted pods wait for a plugin that was there before.
const BOOT_PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Identifies a connection to a plugin in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// A connected instance of a plugin.
pub(crate) struct Instance {
    pub(crate) id: ConnectionId,
    pub(crate) socket: PathBuf,
    pub(crate) options: PluginOptions,
    pub(crate) plugin: Arc<dyn DevicePlugin>,
    pub(crate) since: Timestamp,
    /// The same on the clock of waits.
    pub(crate) connected: Instant,
    /// Ends whoever follows its devices when it is replaced or removed.
    pub(crate) _follower: DropGuard,
}

/// Whether a resource has a plugin.
enum Presence {
    /// Not now; it is removed when the grace period is over.
    Away { since: Instant },
    /// Instances of it are connected, oldest first. Never empty. The newest one that listed devices serves.
    Connected(Vec<Connected>),
}

struct Connected {
    instance: Instance,
    /// Its last list.
    list: Option<DeviceList>,
}

/// A resource of a device plugin.
struct Resource {
    presence: Presence,
    /// The devices as last listed.
    devices: DeviceList,
    /// The devices that were healthy before the plugin went away or the daemon started, until as many are again.
    expected: DeviceIds,
    /// What its newest instance in this run wants to be asked.
    options: PluginOptions,
}

/// A resource for users.
pub(crate) struct ResourceState<'a> {
    pub(crate) name: &'a str,
    pub(crate) devices: &'a DeviceList,
    /// The instances, oldest first.
    pub(crate) instances: Vec<&'a Instance>,
    /// Whether one of them listed devices.
    pub(crate) is_listed: bool,
    /// Since when there is none.
    pub(crate) away: Option<Instant>,
}

/// All resources of device plugins.
pub(crate) struct Inventory {
    resources: BTreeMap<String, Resource>,
    /// Those that were removed in this run and did not come back.
    removed: BTreeSet<String>,
    /// Until when pods wait for plugins that were there before the host booted.
    boot_patience: Instant,
}

impl Inventory {
    /// The inventory after a start at `now`, `uptime` after the host booted, with the devices that were healthy before.
    pub(crate) fn new(registered: BTreeMap<String, DeviceIds>, uptime: Duration, now: Instant) -> Self {
        let resource = |expected| Resource {
            presence: Presence::Away { since: now },
            devices: DeviceList::new(),
            expected,
            options: PluginOptions::default(),
        };
        let resources = registered.into_iter().map(|(name, expected)| (name, resource(expected))).collect();
        let boot_patience = now + BOOT_PATIENCE.saturating_sub(uptime);
        Self { resources, removed: BTreeSet::new(), boot_patience }
    }

    /// A plugin is connected. Its devices are known once it lists them. An instance on the same socket is replaced.
    pub(crate) fn connected(&mut self, resource: &str, instance: Instance) {
        self.removed.remove(resource);
        let known = self.resources.entry(resource.to_owned()).or_insert_with(|| Resource {
            presence: Presence::Away { since: instance.connected },
            devices: DeviceList::new(),
            expected: DeviceIds::new(),
            options: PluginOptions::default(),
        });
        known.options = instance.options;
        let new = Connected { instance, list: None };
        match &mut known.presence {
            Presence::Away { .. } => known.presence = Presence::Connected(vec![new]),
            Presence::Connected(all) => {
                all.retain(|other| other.instance.socket != new.instance.socket);
                all.push(new);
            }
        }
    }

    /// An instance listed its devices. Returns the devices whose health changed, or that are back, if it serves.
    pub(crate) fn listed(&mut self, resource: &str, id: ConnectionId, list: DeviceList) -> DeviceIds {
        let Some(known) = self.resources.get_mut(resource) else { return DeviceIds::new() };
        let Presence::Connected(all) = &mut known.presence else { return DeviceIds::new() };
        let Some(of) = all.iter_mut().find(|connected| connected.instance.id == id) else {
            return DeviceIds::new();
        };
        of.list = Some(list);
        known.serve()
    }

    /// A connection ended. Returns the devices whose health changed, if another instance serves now.
    pub(crate) fn disconnected(&mut self, resource: &str, id: ConnectionId, now: Instant) -> DeviceIds {
        let Some(known) = self.resources.get_mut(resource) else { return DeviceIds::new() };
        let (is_listed, healthy) = (known.is_listed(), known.healthy().cloned().collect());
        let Presence::Connected(all) = &mut known.presence else { return DeviceIds::new() };
        all.retain(|connected| connected.instance.id != id);
        if all.is_empty() {
            known.presence = Presence::Away { since: now };
            if is_listed {
                known.expected = healthy;
            }
            return DeviceIds::new();
        }
        known.serve()
    }

    /// Removes the resources that have been without a plugin for the grace period. Returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.resources.len();
        let is_over = |resource: &Resource| match resource.presence {
            Presence::Away { since } => now > since + GRACE,
            Presence::Connected(_) => false,
        };
        let over = self.resources.iter().filter(|(_, resource)| is_over(resource));
        self.removed.extend(over.map(|(name, _)| name.clone()));
        self.resources.retain(|_, resource| !is_over(resource));
        self.resources.len() != before
    }

    /// When a resource is removed next.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let ends = self.resources.values().filter_map(|resource| match resource.presence {
            Presence::Away { since } => Some(since + GRACE + Duration::from_millis(1)),
            Presence::Connected(_) => None,
        });
        ends.min()
    }

    /// Whether a plugin offered this resource in this run, or is expected to.
    pub(crate) fn knows(&self, resource: &str) -> bool {
        self.resources.contains_key(resource) || self.removed.contains(resource)
    }

    /// Whether a resource is in the capacity of the node.
    pub(crate) fn is_registered(&self, resource: &str) -> bool {
        self.resources.contains_key(resource)
    }

    /// What the newest instance in this run wanted to be asked.
    pub(crate) fn last_options(&self, resource: &str) -> PluginOptions {
        self.resources.get(resource).map(|known| known.options).unwrap_or_default()
    }

    /// All resources that it knows.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.resources.keys().chain(&self.removed).map(String::as_str)
    }

    /// The resources that were removed and did not come back.
    pub(crate) fn removed(&self) -> &BTreeSet<String> {
        &self.removed
    }

    /// The number of devices of each resource, and of those that can be used now.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.resources
            .iter()
            .map(|(name, known)| (name.as_str(), known.devices.len(), known.healthy().count()))
    }

    /// The healthy devices of each resource, for the next run: while a plugin is awaited, those of the last run.
    pub(crate) fn registered(&self) -> BTreeMap<String, DeviceIds> {
        let ids = |known: &Resource| match known.is_listed() {
            true => known.healthy().cloned().collect(),
            false => known.expected.clone(),
        };
        self.resources.iter().map(|(name, known)| (name.clone(), ids(known))).collect()
    }

    /// The devices of a resource as last listed; none if it is not registered.
    pub(crate) fn devices(&self, resource: &str) -> Option<&DeviceList> {
        Some(&self.resources.get(resource)?.devices)
    }

    /// The devices of a resource that can be used now.
    pub(crate) fn healthy(&self, resource: &str) -> DeviceIds {
        self.resources.get(resource).into_iter().flat_map(Resource::healthy).cloned().collect()
    }

    /// The instance that serves a resource.
    pub(crate) fn serving(&self, resource: &str) -> Option<&Instance> {
        self.resources.get(resource)?.serving().map(|connected| &connected.instance)
    }

    /// What is waited for before devices of a resource are missing; `None` if nothing is, or is any more.
    pub(crate) fn awaited(&self, resource: &str, now: Instant) -> Option<NotYet> {
        let known = self.resources.get(resource)?;
        let (since, reason) = match &known.presence {
            Presence::Away { since } => (*since, "its device plugin is not registered".to_owned()),
            Presence::Connected(all) => {
                let since = all.iter().map(|connected| connected.instance.connected).max()?;
                let healthy = known.healthy().count();
                if !known.is_listed() {
                    (since, "its device plugin has not listed devices".to_owned())
                } else if healthy < known.expected.len() {
                    let expected = known.expected.len();
                    (since, format!("its device plugin has {healthy} of {expected} healthy devices"))
                } else {
                    return None;
                }
            }
        };
        let until = (since + PATIENCE).max(self.boot_patience);
        (now < until).then(|| NotYet {
            resource: resource.to_owned(),
            reason: format!("waits for {resource}: {reason}"),
            until,
        })
    }

    /// The health of a device that somebody has. Of a plugin that is awaited nothing else is known.
    pub(crate) fn health(&self, resource: &str, device: &str) -> Health {
        let Some(known) = self.resources.get(resource) else { return Health::Healthy };
        match known.devices.get(device) {
            Some(Device { health, .. }) => *health,
            None if known.is_listed() => Health::Unknown,
            None => Health::Healthy,
        }
    }

    /// All resources, for users.
    pub(crate) fn states(&self) -> impl Iterator<Item = ResourceState<'_>> {
        self.resources.iter().map(|(name, known)| ResourceState {
            name,
            devices: &known.devices,
            instances: known.connected().iter().map(|connected| &connected.instance).collect(),
            is_listed: known.is_listed(),
            away: match known.presence {
                Presence::Away { since } => Some(since),
                Presence::Connected(_) => None,
            },
        })
    }
}

impl Resource {
    fn connected(&self) -> &[Connected] {
        match &self.presence {
            Presence::Away { .. } => &[],
            Presence::Connected(all) => all,
        }
    }

    /// The newest instance that listed its devices.
    fn serving(&self) -> Option<&Connected> {
        self.connected().iter().rfind(|connected| connected.list.is_some())
    }

    fn is_listed(&self) -> bool {
        self.serving().is_some()
    }

    fn healthy(&self) -> impl Iterator<Item = &String> {
        let is_listed = self.is_listed();
        self.devices.iter().filter(move |(_, device)| is_listed && device.is_healthy()).map(|(id, _)| id)
    }

    /// Takes the list of the instance that serves. Returns the devices whose health changed, or that are new.
    fn serve(&mut self) -> DeviceIds {
        let Some(list) = self.serving().and_then(|connected| connected.list.clone()) else {
            return DeviceIds::new();
        };
        let health = |list: &DeviceList, id: &String| list.get(id).map(|device| device.health);
        let all = list.keys().chain(self.devices.keys());
        let changed = all.filter(|id| health(&list, id) != health(&self.devices, id)).cloned().collect();
        self.devices = list;
        if self.healthy().count() >= self.expected.len() {
            self.expected.clear();
        }
        changed
    }
}

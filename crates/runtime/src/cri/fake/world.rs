//! The state of the fake runtime and its scheduled changes. Pure: `now` is an argument, nothing waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use hostlet_base::CgroupDriver;
use hostlet_base::{ContainerId, PodUid, SandboxId};
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::{RuntimeCondition, RuntimeStatus, Version};
use super::clock::{Allocator, Clock, later};
use super::containers::ContainerRecord;
use super::events::{EventMode, Hub};
use super::exec::Exec;
use super::history::{Happened, What};
use super::images::Images;
use super::restart::Outage;
use super::sandboxes::SandboxRecord;
use super::script::Script;

/// A scheduled effect.
type LateEffect = Box<dyn FnOnce(&mut World, Instant) + Send>;

/// The whole state.
pub(super) struct World {
    /// The current time.
    now: Instant,
    pub(super) clock: Clock,
    pub(super) allocator: Allocator,
    pub(super) sandboxes: BTreeMap<SandboxId, SandboxRecord>,
    pub(super) containers: BTreeMap<ContainerId, ContainerRecord>,
    pub(super) images: Images,
    pub(super) hub: Hub,
    pub(super) scripts: HashMap<String, Script>,
    pub(super) execs: HashMap<Vec<String>, Exec>,
    /// Where streams are served: the beginning of their URLs.
    pub(super) streams: String,
    /// Bytes in writable layers.
    pub(super) written: HashMap<ContainerId, u64>,
    /// Bytes of memory in use.
    pub(super) memory: HashMap<ContainerId, u64>,
    /// Number of starts by pod and container name.
    pub(super) starts: HashMap<(PodUid, String), usize>,
    /// Scheduled exits. An entry is valid only if its container has the same time.
    pub(super) exits: BTreeSet<(Instant, ContainerId)>,
    pub(super) version: Version,
    pub(super) status: RuntimeStatus,
    pub(super) cgroup_driver: Option<CgroupDriver>,
    /// The image of sandboxes among the settings.
    pub(super) sandbox_image: Option<String>,
    /// A path on the filesystem of the images.
    pub(super) image_place: String,
    /// The ranges of the pods' addresses; `None` until the kubelet has sent them.
    pub(super) pod_cidr: Option<String>,
    /// `None` before the first restart of the runtime.
    pub(super) outage: Option<Outage>,
    /// Number of restarts.
    pub(super) restarts: u32,
    /// The history of containers.
    pub(super) history: Vec<Happened>,
    /// Maximum encoded size of a list in bytes.
    pub(super) message_limit: usize,
    late: BTreeMap<(Instant, u64), LateEffect>,
    late_count: u64,
    /// Reserved names with their owners.
    names: HashMap<String, String>,
    revision: u64,
}

impl World {
    pub(super) fn new(base: Timestamp) -> Self {
        let ready = RuntimeCondition { status: true, ..RuntimeCondition::default() };
        Self {
            now: Instant::now(),
            clock: Clock::new(base),
            allocator: Allocator::default(),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            images: Images::default(),
            hub: Hub::default(),
            scripts: HashMap::new(),
            execs: HashMap::new(),
            streams: String::new(),
            written: HashMap::new(),
            memory: HashMap::new(),
            starts: HashMap::new(),
            exits: BTreeSet::new(),
            version: Version {
                runtime_name: "containerd".to_owned(),
                runtime_version: "1.6.20".to_owned(),
                api_version: "v1".to_owned(),
            },
            status: RuntimeStatus { runtime: ready.clone(), network: ready, ..RuntimeStatus::default() },
            cgroup_driver: None,
            sandbox_image: None,
            image_place: "/".to_owned(),
            pod_cidr: None,
            outage: None,
            restarts: 0,
            history: Vec::new(),
            message_limit: usize::MAX,
            late: BTreeMap::new(),
            late_count: 0,
            names: HashMap::new(),
            revision: 0,
        }
    }

    /// The current time.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Incremented by every change that can be awaited.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Records a change of `pod`: wakes waiters and notifies subscribers.
    pub(super) fn changed(&mut self, pod: &PodUid, object: &str) {
        self.touch();
        match self.hub.mode() {
            EventMode::Late(by) => {
                let (pod, object, at) = (pod.clone(), object.to_owned(), later(self.now, by));
                self.schedule(at, Box::new(move |world, _| world.hub.publish(&pod, &object)));
            }
            EventMode::Pods
            | EventMode::Objects
            | EventMode::Duplicated
            | EventMode::Lost
            | EventMode::Unimplemented => self.hub.publish(pod, object),
        }
    }

    /// Records a change without an event.
    pub(super) fn touch(&mut self) {
        self.revision += 1;
    }

    /// Applies everything due by `now`, in order.
    pub(super) fn settle(&mut self, now: Instant) {
        self.now = now;
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            if self.exits.first().is_some_and(|(at, _)| *at == due) {
                if let Some((at, id)) = self.exits.pop_first() {
                    self.end_by_itself(&id, at);
                }
            } else if let Some(((at, _), effect)) = self.late.pop_first() {
                effect(self, at);
                self.touch();
            }
        }
    }

    /// The time of the next scheduled change.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let exit = self.exits.first().map(|(at, _)| *at);
        let late = self.late.first_key_value().map(|((at, _), _)| *at);
        exit.into_iter().chain(late).min()
    }

    /// Schedules `effect` at `at`.
    pub(super) fn schedule(&mut self, at: Instant, effect: LateEffect) {
        self.late_count += 1;
        self.late.insert((at, self.late_count), effect);
        self.touch();
    }

    /// Drops all scheduled effects and frees their names.
    pub(super) fn forget_unlanded(&mut self) {
        self.late.clear();
        let (sandboxes, containers) = (&self.sandboxes, &self.containers);
        self.names
            .retain(|_, id| sandboxes.contains_key(id.as_str()) || containers.contains_key(id.as_str()));
    }

    /// Records a change of a container.
    pub(super) fn note(&mut self, id: &ContainerId, at: Instant, what: What) {
        let Some(record) = self.containers.get(id) else { return };
        let metadata = record.config.metadata.clone().unwrap_or_default();
        self.history.push(Happened {
            at,
            pod: record.pod.clone(),
            sandbox: record.sandbox.clone(),
            id: id.clone(),
            name: metadata.name,
            attempt: metadata.attempt,
            what,
        });
    }

    /// Reserves a name, as containerd does before creating anything; fails with containerd's message if another object has it.
    /// Idempotent for the same object.
    pub(super) fn reserve(&mut self, name: &str, id: &str) -> Result<(), String> {
        let owner = self.names.entry(name.to_owned()).or_insert_with(|| id.to_owned());
        if owner == id { Ok(()) } else { Err(format!("name \"{name}\" is reserved for \"{owner}\"")) }
    }

    /// Frees the names of an object.
    pub(super) fn release_names(&mut self, id: &str) {
        self.names.retain(|_, owner| owner != id);
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("sandboxes", &self.sandboxes)
            .field("containers", &self.containers)
            .finish_non_exhaustive()
    }
}

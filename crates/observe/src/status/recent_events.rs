//! The recent events of pods and of the node, in a bounded ring in memory, so that they can be read where there is no API server, too.
//! An event equal to one that is still in the ring is counted there and moves to the end, as the API server counts events of one
//! series. Sends nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_base::{EventKind, PodRef, WallClock};
use hostlet_pod::{ContainerRef, PodEvents};

/// How many events are kept, about 100 KiB of them.
const KEPT: usize = 256;

/// The longest message, in bytes: an API server truncates at 1 KiB.
const MESSAGE_MOST: usize = 1024;

/// An event about a pod, one of its containers, or the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentEvent {
    /// Its place in the order of all events of this daemon; a repetition gets a new one.
    pub number: u64,
    /// When it was first seen.
    pub first: Timestamp,
    /// When it was last seen.
    pub last: Timestamp,
    /// How often.
    pub count: u64,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its machine-readable cause.
    pub reason: String,
    /// Namespace of its pod; `None` for an event of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of its pod, or of the node.
    pub name: String,
    /// Its container, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Human-readable description.
    pub message: String,
}

impl RecentEvent {
    /// Whether both events are equal, except for their times.
    fn equals(&self, other: &Self) -> bool {
        self.message == other.message
            && self.reason == other.reason
            && self.kind == other.kind
            && self.name == other.name
            && self.namespace == other.namespace
            && self.container == other.container
    }
}

/// The ring. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct RecentEvents {
    ring: Arc<Mutex<Ring>>,
    /// The number of the latest event.
    latest: watch::Sender<u64>,
    clock: WallClock,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<RecentEvent>,
    number: u64,
}

impl RecentEvents {
    /// An empty ring. `clock` dates the events.
    pub fn new(clock: WallClock) -> Self {
        Self { ring: Arc::default(), latest: watch::Sender::new(0), clock }
    }

    /// A sink for events of pods, which passes them on to `next`.
    pub fn of_pods(&self, next: PodEvents) -> PodEvents {
        let recent = self.clone();
        Arc::new(move |pod: &PodRef, container: Option<&ContainerRef>, event| {
            recent.add(RecentEvent {
                namespace: Some(pod.namespace.to_string()),
                name: pod.name.to_string(),
                container: container.map(|container| container.name.clone()),
                ..recent.blank(event.kind, &event.reason, &event.message)
            });
            next(pod, container, event);
        })
    }

    /// A sink for events of the node, which passes them on to `next`.
    pub fn of_node(&self, node: &str, next: NodeEvents) -> NodeEvents {
        let (recent, node) = (self.clone(), node.to_owned());
        Arc::new(move |event: NodeEvent| {
            let blank = recent.blank(event.kind, &event.reason, &event.message);
            recent.add(RecentEvent { name: node.clone(), ..blank });
            next(event);
        })
    }

    fn blank(&self, kind: EventKind, reason: &str, message: &str) -> RecentEvent {
        let now = self.clock.now();
        RecentEvent {
            number: 0,
            first: now,
            last: now,
            count: 1,
            kind: kind.as_str().to_owned(),
            reason: reason.to_owned(),
            namespace: None,
            name: String::new(),
            container: None,
            message: message[..message.floor_char_boundary(MESSAGE_MOST)].to_owned(),
        }
    }

    fn add(&self, mut event: RecentEvent) {
        let number = {
            let mut ring = self.ring.lock();
            ring.number += 1;
            event.number = ring.number;
            if let Some(at) = ring.events.iter().position(|known| known.equals(&event))
                && let Some(known) = ring.events.remove(at)
            {
                event.first = known.first;
                event.count = known.count.saturating_add(1);
            }
            ring.events.push_back(event);
            if ring.events.len() > KEPT {
                ring.events.pop_front();
            }
            ring.number
        };
        // Later numbers may have been published meanwhile.
        self.latest.send_if_modified(|latest| {
            let is_later = number > *latest;
            *latest = number.max(*latest);
            is_later
        });
    }

    /// The events with a number above `after`, oldest first.
    pub fn after(&self, after: u64) -> Vec<RecentEvent> {
        self.ring.lock().events.iter().filter(|event| event.number > after).cloned().collect()
    }

    /// Changes with every event.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::PodEvent;
    use hostlet_pod::ContainerKind;

    fn recent() -> (RecentEvents, PodEvents, NodeEvents) {
        let recent = RecentEvents::new(WallClock::system());
        let pods = recent.of_pods(Arc::new(|_, _, _| {}));
        let node = recent.of_node("node1", Arc::new(|_| {}));
        (recent, pods, node)
    }

    #[test]
    fn equal_events_are_counted_and_the_latest_come_last() {
        let (recent, pods, node) = recent();
        let web = PodRef::new("default", "web", "u");
        let back_off = PodEvent::warning("BackOff", "again");
        let c = ContainerRef { kind: ContainerKind::Main, name: "c".to_owned() };
        pods(&web, Some(&c), &back_off);
        node(NodeEvent::normal("Starting", "Starting kubelet."));
        pods(&web, Some(&c), &back_off);
        pods(&web, None, &back_off);
        let events = recent.after(0);
        let shown: Vec<_> =
            events.iter().map(|e| (e.name.as_str(), e.container.as_deref(), e.count, e.number)).collect();
        assert_eq!(shown, [("node1", None, 1, 2), ("web", Some("c"), 2, 3), ("web", None, 1, 4)]);
        assert_eq!(events[1].kind, "Warning");
        assert_eq!((events[0].namespace.as_deref(), events[1].namespace.as_deref()), (None, Some("default")));
        assert_eq!(recent.after(3).len(), 1);
        assert_eq!(*recent.changes().borrow(), 4);
    }

    #[test]
    fn only_the_latest_are_kept_and_long_messages_are_cut() {
        let (recent, pods, _) = recent();
        let web = PodRef::new("default", "web", "u");
        for n in 0..KEPT + 10 {
            pods(&web, None, &PodEvent::normal("Pulled", n.to_string()));
        }
        pods(&web, None, &PodEvent::normal("Long", "ä".repeat(MESSAGE_MOST)));
        let events = recent.after(0);
        assert_eq!(events.len(), KEPT);
        assert_eq!(events[0].message, "11");
        assert!(events[KEPT - 1].message.len() <= MESSAGE_MOST);
    }

    #[test]
    fn events_are_passed_on() {
        let passed = Arc::new(Mutex::new(Vec::new()));
        let seen = passed.clone();
        let recent = RecentEvents::new(WallClock::system());
        let pods = recent.of_pods(Arc::new(move |pod, _, event| seen.lock().push(format!("{pod} {event}"))));
        pods(&PodRef::new("default", "web", "u"), None, &PodEvent::normal("A", "b"));
        assert_eq!(*passed.lock(), ["default/web A: b"]);
    }
}

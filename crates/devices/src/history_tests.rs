//! Random histories of plugins, pods and restarts: nobody has a device that another pod has, nobody who was admitted loses one, and all
//! come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hostlet_base::PodUid;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use crate::allocation::ContainerAllocations;
use crate::checkpoint::{encode, read};
use crate::client::PluginOptions;
use crate::device::{DeviceIds, Health};
use crate::inventory::{ConnectionId, GRACE};
use crate::requests::PodRequests;
use crate::state::PodStage;
use crate::testing::{DAY, GPU, World, container, list, pod, sidecar};

/// The devices that plugins have.
const DEVICES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A step of a history.
#[derive(Clone, Debug)]
enum Event {
    /// A plugin connects on one of two sockets.
    Connect(bool),
    /// One of the connected plugins lists devices: healthy, unhealthy or not at all.
    List(usize, [u8; 6]),
    /// One of the connected plugins goes away.
    Disconnect(usize),
    /// A pod is admitted, or the same one again: its number, and what its containers request.
    Admit(u8, [u8; 4]),
    /// A pod is removed.
    Remove(u8),
    /// The daemon restarts, and perhaps the host.
    Restart(bool),
    /// Time passes, seconds.
    Pass(u16),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => any::<bool>().prop_map(Event::Connect),
        4 => (0..3_usize, prop::array::uniform6(0..4_u8)).prop_map(|(of, all)| Event::List(of, all)),
        1 => (0..3_usize).prop_map(Event::Disconnect),
        6 => (0..5_u8, prop::array::uniform4(0..3_u8)).prop_map(|(of, all)| Event::Admit(of, all)),
        2 => (0..5_u8).prop_map(Event::Remove),
        1 => any::<bool>().prop_map(Event::Restart),
        1 => (0..400_u16).prop_map(Event::Pass),
    ]
}

/// A history so far.
struct History {
    world: World,
    connected: Vec<ConnectionId>,
    /// The admitted pods, with what their containers were allocated.
    admitted: BTreeMap<u8, (Pod, BTreeMap<String, ContainerAllocations>)>,
}

impl History {
    fn new() -> Self {
        let world = World::after(DAY, &[], Default::default());
        Self { world, connected: Vec::new(), admitted: BTreeMap::new() }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connect(is_second) => {
                let socket = if is_second { "b.sock" } else { "a.sock" };
                self.connected.push(self.world.connect(socket, PluginOptions::default()));
            }
            Event::List(of, health) => {
                let Some(id) = self.connected.get(of) else { return };
                let listed = DEVICES.iter().zip(health).filter(|(_, health)| *health < 3);
                let listed: Vec<(&str, Health)> = listed
                    .map(|(id, health)| (*id, if health < 2 { Health::Healthy } else { Health::Unhealthy }))
                    .collect();
                self.world.list(*id, list(&listed));
            }
            Event::Disconnect(of) => {
                if of < self.connected.len() {
                    let id = self.connected.remove(of);
                    self.world.disconnect(id);
                }
            }
            Event::Admit(number, counts) => self.admit(number, counts),
            Event::Remove(number) => {
                self.admitted.remove(&number);
                self.release();
            }
            Event::Restart(is_reboot) => {
                let (state, now) = (&self.world.state, self.world.now);
                let decoded = read(&encode(&state.inventory.registered(), &state.allocations));
                assert!(decoded.problem.is_none());
                let uptime = if is_reboot { Duration::ZERO } else { DAY };
                let mut world = World::after(uptime, &[], decoded.allocations);
                world.state.inventory = crate::inventory::Inventory::new(decoded.registered, uptime, now);
                world.now = now;
                self.world = world;
                self.connected.clear();
            }
            Event::Pass(seconds) => self.world.passes(Duration::from_secs(seconds.into())),
        }
    }

    /// Admits a new pod, or confirms what a running one has, whatever the plugins do.
    fn admit(&mut self, number: u8, counts: [u8; 4]) {
        if let Some((pod, _)) = self.admitted.get(&number) {
            let pod = pod.clone();
            for container in PodRequests::of(&pod).containers {
                self.world.allocate(&pod, &container.name, PodStage::Running).unwrap();
            }
            return;
        }
        let [init, beside, main, other] = counts.map(usize::from);
        let new = pod(
            &number.to_string(),
            &[container("init", init), sidecar("beside", beside)],
            &[container("main", main), container("other", other)],
        );
        if self.world.admit(&new).is_ok() {
            let allocated = self.of_pod(number);
            self.admitted.insert(number, (new, allocated));
        }
        // Of one that is rejected nothing remains.
        self.release();
    }

    fn release(&mut self) {
        let remain: BTreeSet<PodUid> = self.admitted.keys().map(|number| uid(*number)).collect();
        self.world.state.allocations.retain(&remain);
    }

    fn of_pod(&self, number: u8) -> BTreeMap<String, ContainerAllocations> {
        let mut of_pod = BTreeMap::<String, ContainerAllocations>::new();
        for (of, container, resource, allocation) in self.world.state.allocations.iter() {
            if *of == uid(number) {
                let of_container = of_pod.entry(container.to_owned()).or_default();
                of_container.insert(resource.to_owned(), allocation.clone());
            }
        }
        of_pod
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let mut taken = DeviceIds::new();
        for (number, (pod, allocated)) in &self.admitted {
            prop_assert_eq!(&self.of_pod(*number), allocated, "a pod's devices changed");
            let of_pod = self.world.state.allocations.of_pod(&uid(*number), GPU);
            prop_assert!(taken.is_disjoint(&of_pod), "two pods have one device");
            taken.extend(of_pod);
            let mut lasting = DeviceIds::new();
            for of in PodRequests::of(pod).containers {
                let ids = self.world.state.allocations.of(&uid(*number), &of.name, GPU);
                let ids = ids.map(crate::allocation::Allocation::ids).unwrap_or_default();
                if !ids.is_empty() {
                    prop_assert_eq!(Some(&ids.len()), of.amounts.get(GPU));
                }
                if of.name != "init" {
                    prop_assert!(
                        lasting.is_disjoint(&ids),
                        "two containers that run together have one device"
                    );
                    lasting.extend(ids);
                }
            }
        }
        prop_assert_eq!(
            self.world.state.allocations.in_use(GPU),
            taken,
            "somebody has a device who is removed"
        );
        Ok(())
    }
}

fn uid(number: u8) -> PodUid {
    number.to_string().as_str().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn devices_are_nobody_elses_and_come_back(events in prop::collection::vec(event(), 1..60)) {
        let mut history = History::new();
        for event in events {
            history.happens(event);
            history.check()?;
        }
        history.admitted.clear();
        history.release();
        history.world.passes(GRACE * 2);
        let id = history.world.connect("c.sock", PluginOptions::default());
        history.world.list(id, list(&DEVICES.map(|device| (device, Health::Healthy))));
        let all = pod("all", &[], &[container("main", DEVICES.len())]);
        prop_assert!(history.world.admit(&all).is_ok(), "all devices are there again");
    }
}

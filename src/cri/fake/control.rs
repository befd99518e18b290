//! What a test does to the runtime and asks of it behind the kubelet's back.

use super::super::{Operation, RuntimeStatus, Version, wire};
use super::calls::Call;
use super::containers::{Life, reason};
use super::events::EventMode;
use super::history::Happened;
use super::images::Pull;
use super::runtime::FakeRuntime;
use super::script::Script;
use super::view;
use crate::types::{CgroupDriver, ContainerId, SandboxId};

/// What the runtime says of itself.
impl FakeRuntime {
    /// The answer of the version handshake.
    pub fn set_version(&self, version: Version) {
        self.with(|world, _| world.version = version);
    }

    /// Whether runtime and network are ready.
    pub fn set_status(&self, status: RuntimeStatus) {
        self.with(|world, _| world.status = status);
    }

    /// The cgroup driver; none for a runtime that cannot say, as at first.
    pub fn set_cgroup_driver(&self, driver: Option<CgroupDriver>) {
        self.with(|world, _| world.cgroup_driver = driver);
    }

    /// The largest list that is sent, in bytes on the wire; without any limit at first.
    pub fn set_message_limit(&self, bytes: usize) {
        self.with(|world, _| world.message_limit = bytes);
    }

    /// How changes are told from now on.
    pub fn set_event_mode(&self, mode: EventMode) {
        self.with(|world, _| world.hub.set_mode(mode));
    }

    /// Breaks all event streams there are.
    pub fn hang_up_events(&self) {
        self.with(|world, _| {
            world.hub.hang_up();
            world.touch();
        });
    }
}

/// What happens in it.
impl FakeRuntime {
    /// How containers of this name behave from their next start or stop on, in every pod.
    pub fn script(&self, container_name: &str, script: Script) {
        self.with(|world, _| world.scripts.insert(container_name.to_owned(), script));
    }

    /// Sets the wall clock, so many seconds on or back.
    pub fn set_clock(&self, seconds: i64) {
        self.with(|world, _| world.clock.step(seconds));
    }

    /// A running container's process ends now.
    pub fn exit_container(&self, id: &ContainerId, code: i32) {
        self.with(|world, now| world.exit(id, now, code, reason(code)));
    }

    /// A running container's process is killed now for want of memory.
    pub fn oom_kill_container(&self, id: &ContainerId) {
        self.with(|world, now| world.exit(id, now, 137, "OOMKilled"));
    }

    /// The runtime loses track of a container: its state is unknown.
    pub fn lose_container(&self, id: &ContainerId) {
        self.with(|world, _| {
            if let Some(record) = world.containers.get_mut(id) {
                record.life = Life::Unknown;
                let pod = record.pod.clone();
                world.changed(&pod, id.as_str());
            }
        });
    }

    /// A sandbox's own process dies; its containers go on.
    pub fn kill_sandbox(&self, id: &SandboxId) {
        self.with(|world, _| world.kill_sandbox(id));
    }

    /// A sandbox and its containers, or a container, are gone without any event.
    pub fn remove_behind_back(&self, id: &str) {
        self.with(|world, _| {
            let sandbox = SandboxId::from(id);
            for container in world.containers_of(&sandbox) {
                world.forget_container(&container);
            }
            world.forget_sandbox(&sandbox);
            world.forget_container(&id.into());
            world.touch();
        });
    }

    /// Puts an image into the store and returns its identifier.
    pub fn add_image(&self, image: &str) -> String {
        self.with(|world, _| world.images.add(image))
    }

    /// Takes an image out of the store.
    pub fn remove_image(&self, image: &str) {
        self.with(|world, _| world.images.remove(image));
    }

    /// How the registry answers pulls of this image. Others succeed at once.
    pub fn script_pull(&self, image: &str, pull: Pull) {
        self.with(|world, _| world.images.script(image, pull));
    }
}

/// What was asked of it.
impl FakeRuntime {
    /// All calls so far, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.log().snapshot()
    }

    /// The calls after the first so many, oldest first, and how many there are in all.
    pub fn calls_after(&self, first: usize) -> (Vec<Call>, usize) {
        self.log().after(first)
    }

    /// What became of containers after the first so many changes, oldest first.
    pub fn history_after(&self, first: usize) -> Vec<Happened> {
        self.with(|world, _| world.history.get(first..).unwrap_or_default().to_vec())
    }

    /// The calls of one kind so far, oldest first.
    pub fn calls_of(&self, operation: Operation) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.operation == operation).collect()
    }

    /// How many calls of these kinds were in flight at once, at most. A call that ended when another came did not
    /// overlap it.
    pub fn peak_in_flight(&self, operations: &[Operation]) -> usize {
        let calls: Vec<Call> =
            self.calls().into_iter().filter(|call| operations.contains(&call.operation)).collect();
        let overlap = |at| {
            calls.iter().filter(|call| call.at <= at && call.ended_at.is_none_or(|ended| ended > at)).count()
        };
        calls.iter().map(|call| overlap(call.at)).max().unwrap_or(0)
    }

    /// The configuration a sandbox was made with.
    pub fn sandbox_config(&self, id: &SandboxId) -> Option<wire::PodSandboxConfig> {
        self.with(|world, _| world.sandboxes.get(id).map(|record| record.config.clone()))
    }

    /// The configuration a container was made with.
    pub fn container_config(&self, id: &ContainerId) -> Option<wire::ContainerConfig> {
        self.with(|world, _| world.containers.get(id).map(|record| record.config.clone()))
    }
}

/// What it has, as the CRI writes it. Neither logged nor subject to faults.
impl FakeRuntime {
    /// All sandboxes.
    pub fn wire_sandboxes(&self) -> Vec<wire::PodSandbox> {
        self.with(|world, _| world.sandboxes.iter().map(|(id, record)| view::sandbox(id, record)).collect())
    }

    /// One sandbox, inspected.
    pub fn wire_sandbox_status(&self, id: &SandboxId) -> Option<wire::PodSandboxStatus> {
        self.with(|world, _| world.sandboxes.get(id).map(|record| view::sandbox_status(id, record)))
    }

    /// All containers.
    pub fn wire_containers(&self) -> Vec<wire::Container> {
        self.with(|world, _| {
            world.containers.iter().map(|(id, record)| view::container(id, record)).collect()
        })
    }

    /// One container, inspected.
    pub fn wire_container_status(&self, id: &ContainerId) -> Option<wire::ContainerStatus> {
        self.with(|world, _| world.containers.get(id).map(|record| world.container_view(id, record)))
    }

    /// One image by identifier, name or digest.
    pub fn wire_image(&self, image: &str) -> Option<wire::Image> {
        self.with(|world, _| world.images.find(image).cloned())
    }

    /// All images.
    pub fn wire_images(&self) -> Vec<wire::Image> {
        self.with(|world, _| world.images.list())
    }
}

//! Controls and queries for tests.

use hostlet_base::{CgroupDriver, ContainerId, SandboxId};

use super::super::{Operation, RuntimeStatus, Version, wire};
use super::calls::RecordedCall;
use super::containers::{Life, reason};
use super::events::EventMode;
use super::exec::Exec;
use super::history::Happened;
use super::images::Pull;
use super::runtime::FakeRuntime;
use super::script::Script;
use super::view;

/// Status of the runtime.
impl FakeRuntime {
    /// Sets the response of the version handshake.
    pub fn set_version(&self, version: Version) {
        self.with(|world, _| world.version = version);
    }

    /// Sets whether runtime and network are ready.
    pub fn set_status(&self, status: RuntimeStatus) {
        self.with(|world, _| world.status = status);
    }

    /// Sets the cgroup driver; initially `None`, not reported.
    pub fn set_cgroup_driver(&self, driver: Option<CgroupDriver>) {
        self.with(|world, _| world.cgroup_driver = driver);
    }

    /// Limits the encoded size of lists in bytes; initially unlimited.
    pub fn set_message_limit(&self, bytes: usize) {
        self.with(|world, _| world.message_limit = bytes);
    }

    /// Sets how events are sent.
    pub fn set_event_mode(&self, mode: EventMode) {
        self.with(|world, _| world.hub.set_mode(mode));
    }

    /// Breaks all event streams.
    pub fn hang_up_events(&self) {
        self.with(|world, _| {
            world.hub.hang_up();
            world.touch();
        });
    }
}

/// Changes in the runtime.
impl FakeRuntime {
    /// Sets the behavior of containers of this name in every pod, from their next start or stop on.
    pub fn script(&self, container_name: &str, script: Script) {
        self.with(|world, _| world.scripts.insert(container_name.to_owned(), script));
    }

    /// Sets where streams are served; the calls append `/exec/<container>`, `/attach/<container>` or `/portforward/<sandbox>`.
    pub fn serve_streams_at(&self, url: &str) {
        self.with(|world, _| url.clone_into(&mut world.streams));
    }

    /// What a command does in any running container: as scripted, or print itself.
    pub fn exec_of(&self, command: &[String]) -> Exec {
        self.with(|world, _| world.exec(command))
    }

    /// Sets what a command does in any running container.
    pub fn script_exec(&self, command: &[&str], exec: Exec) {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        self.with(|world, _| world.execs.insert(command, exec));
    }

    /// Sets the wall clock forward or back by this many seconds.
    pub fn set_clock(&self, seconds: i64) {
        self.with(|world, _| world.clock.step(seconds));
    }

    /// Exits a running container's process.
    pub fn exit_container(&self, id: &ContainerId, code: i32) {
        self.with(|world, now| world.exit(id, now, code, reason(code)));
    }

    /// Sets the size of a container's writable layer, bytes.
    pub fn set_written(&self, id: &ContainerId, bytes: u64) {
        self.with(|world, _| world.written.insert(id.clone(), bytes));
    }

    /// Sets the memory that a container uses, bytes.
    pub fn set_memory(&self, id: &ContainerId, bytes: u64) {
        self.with(|world, _| world.memory.insert(id.clone(), bytes));
    }

    /// OOM-kills a running container's process.
    pub fn oom_kill_container(&self, id: &ContainerId) {
        self.with(|world, now| world.exit(id, now, 137, "OOMKilled"));
    }

    /// Sets a container's state to unknown.
    pub fn lose_container(&self, id: &ContainerId) {
        self.with(|world, _| {
            if let Some(record) = world.containers.get_mut(id) {
                record.life = Life::Unknown;
                let pod = record.pod.clone();
                world.changed(&pod, id.as_str());
            }
        });
    }

    /// Kills a sandbox's own process; its containers keep running.
    pub fn kill_sandbox(&self, id: &SandboxId) {
        self.with(|world, _| world.kill_sandbox(id));
    }

    /// Removes a sandbox with its containers, or a container, without an event.
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

    /// Adds an image and returns its ID.
    pub fn add_image(&self, image: &str) -> String {
        self.with(|world, _| world.images.add(image))
    }

    /// Sets the size of an image, bytes.
    pub fn set_image_size(&self, image: &str, bytes: u64) {
        self.with(|world, _| world.images.change(image, |image| image.size = bytes));
    }

    /// Marks an image as one that must not be removed, as runtimes do with that of sandboxes.
    pub fn pin_image(&self, image: &str) {
        self.with(|world, _| world.images.change(image, |image| image.pinned = true));
    }

    /// Sets the image of sandboxes that the runtime's settings show; initially none.
    pub fn set_sandbox_image(&self, image: &str) {
        self.with(|world, _| world.sandbox_image = Some(image.to_owned()));
    }

    /// Sets the path that the runtime names of the filesystem of images and writable layers; initially `/`.
    pub fn set_image_place(&self, path: &str) {
        self.with(|world, _| path.clone_into(&mut world.image_place));
    }

    /// Removes an image without a call.
    pub fn lose_image(&self, image: &str) {
        self.with(|world, _| world.images.remove(image));
    }

    /// Sets the registry's response to pulls of this image. Others succeed at once.
    pub fn script_pull(&self, image: &str, pull: Pull) {
        self.with(|world, _| world.images.script(image, pull));
    }

    /// Makes an image private: a pull needs this login.
    pub fn require_login(&self, image: &str, username: &str, password: &str) {
        let (username, password) = (username.to_owned(), password.to_owned());
        let auth = wire::AuthConfig { username, password, ..wire::AuthConfig::default() };
        self.with(|world, _| world.images.require_login(image, auth));
    }
}

/// Recorded calls.
impl FakeRuntime {
    /// All calls so far, oldest first.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.log().snapshot()
    }

    /// The calls after the first `seen`, oldest first, and their total number.
    pub fn calls_after(&self, first: usize) -> (Vec<RecordedCall>, usize) {
        self.log().after(first)
    }

    /// The container changes after the first `seen`, oldest first.
    pub fn history_after(&self, first: usize) -> Vec<Happened> {
        self.with(|world, _| world.history.get(first..).unwrap_or_default().to_vec())
    }

    /// The calls of one kind so far, oldest first.
    pub fn calls_of(&self, operation: Operation) -> Vec<RecordedCall> {
        self.calls().into_iter().filter(|call| call.operation == operation).collect()
    }

    /// Maximum number of parallel calls of these kinds. A call that ends when another starts does not overlap it.
    pub fn peak_in_flight(&self, operations: &[Operation]) -> usize {
        let calls: Vec<RecordedCall> =
            self.calls().into_iter().filter(|call| operations.contains(&call.operation)).collect();
        let overlap = |at| {
            calls.iter().filter(|call| call.at <= at && call.ended_at.is_none_or(|ended| ended > at)).count()
        };
        calls.iter().map(|call| overlap(call.at)).max().unwrap_or(0)
    }

    /// The ranges of the pods' addresses that the runtime received.
    pub fn pod_cidr(&self) -> Option<String> {
        self.with(|world, _| world.pod_cidr.clone())
    }

    /// The configuration of a sandbox.
    pub fn sandbox_config(&self, id: &SandboxId) -> Option<wire::PodSandboxConfig> {
        self.with(|world, _| world.sandboxes.get(id).map(|record| record.config.clone()))
    }

    /// The configuration of a container.
    pub fn container_config(&self, id: &ContainerId) -> Option<wire::ContainerConfig> {
        self.with(|world, _| world.containers.get(id).map(|record| record.config.clone()))
    }
}

/// Its objects, as CRI messages. Neither logged nor subject to faults.
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

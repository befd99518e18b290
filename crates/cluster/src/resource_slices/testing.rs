//! Scripted drivers and the tasks that the daemon runs for them, on the fake API server.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use hostlet_base::WallClock;
use hostlet_base::node::NodeEvent;
use hostlet_plugins::{InstanceId, PluginEvent, PluginHandler, PluginInstance};
use hostlet_proto::dra::{
    NamedResourcesAttribute, NamedResourcesAttributeValue, NamedResourcesInstance, NamedResourcesIntSlice,
    NamedResourcesResources, NodeListAndWatchResourcesResponse, ResourceModel,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::stream::{Dial, Messages, StreamError};
use super::{Dra, DraSettings, DraTask};
use crate::api::fake::{FakeApi, Recorded};

pub(super) const NODE: &str = "node1";
pub(super) const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// Devices as a test states them: name → value of the attribute `generation`.
pub(super) type Devices = BTreeMap<String, i64>;

pub(super) fn devices(names: impl IntoIterator<Item = usize>, value: i64) -> Devices {
    names.into_iter().map(|name| (format!("dev-{name:05}"), value)).collect()
}

/// A message with these devices, and for each a list if asked for.
pub(super) fn message(devices: &Devices, with_lists: bool) -> NodeListAndWatchResourcesResponse {
    let attribute = |name: &str, value: NamedResourcesAttributeValue| NamedResourcesAttribute {
        name: name.to_owned(),
        attribute_value: Some(value),
    };
    let instance = |(name, value): (&String, &i64)| {
        let mut attributes = vec![attribute(
            "generation",
            NamedResourcesAttributeValue { int: Some(*value), ..NamedResourcesAttributeValue::default() },
        )];
        if with_lists {
            let list = NamedResourcesIntSlice { ints: vec![1, 2, *value] };
            let value = NamedResourcesAttributeValue {
                int_slice: Some(list),
                ..NamedResourcesAttributeValue::default()
            };
            attributes.push(attribute("list", value));
        }
        NamedResourcesInstance { name: name.clone(), attributes }
    };
    let instances = devices.iter().map(instance).collect();
    let model = ResourceModel { named_resources: Some(NamedResourcesResources { instances }) };
    NodeListAndWatchResourcesResponse { resources: vec![model] }
}

/// How a driver process behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Its socket refuses connections.
    pub(super) is_down: bool,
    /// hostlet panics when it opens the stream.
    pub(super) is_poison: bool,
    /// It does not have the method.
    pub(super) is_unsupported: bool,
    /// Open streams end when this changes, with an error or without.
    pub(super) cuts: usize,
    /// Streams end at once.
    pub(super) is_silent: bool,
    /// Whether they end without an error.
    pub(super) ends_well: bool,
    /// What it says, and how often it said something.
    pub(super) said: Option<(usize, Arc<NodeListAndWatchResourcesResponse>)>,
}

/// Driver processes by socket.
#[derive(Clone, Default)]
pub(super) struct ScriptedDrivers {
    scripts: Arc<Mutex<HashMap<PathBuf, watch::Sender<Script>>>>,
    /// Streams that were opened.
    pub(super) opened: Arc<Mutex<Vec<(Instant, PathBuf)>>>,
}

impl ScriptedDrivers {
    pub(super) fn change(&self, socket: &Path, change: impl FnOnce(&mut Script)) {
        self.scripts.lock().entry(socket.to_owned()).or_default().send_modify(change);
    }

    pub(super) fn say(&self, socket: &Path, message: NodeListAndWatchResourcesResponse) {
        self.change(socket, |script| {
            let number = script.said.as_ref().map_or(0, |(number, _)| *number);
            script.said = Some((number + 1, Arc::new(message)));
        });
    }
}

#[async_trait]
impl Dial for ScriptedDrivers {
    async fn open(&self, endpoint: &Path) -> Result<Messages, StreamError> {
        self.opened.lock().push((Instant::now(), endpoint.to_owned()));
        let failed = |message: &str| StreamError::Failed {
            code: tonic::Code::Unavailable,
            message: message.to_owned(),
        };
        let script = self.scripts.lock().get(endpoint).map(watch::Sender::subscribe);
        assert!(!script.as_ref().is_some_and(|script| script.borrow().is_poison), "a panic of a test");
        let Some(script) = script.filter(|script| !script.borrow().is_down) else {
            return Err(failed("connection refused"));
        };
        let cuts = script.borrow().cuts;
        let messages = stream::unfold((script, 0, false), move |(mut script, seen, is_over)| async move {
            loop {
                if is_over {
                    return None;
                }
                let now = script.borrow_and_update().clone();
                if now.is_unsupported {
                    return Some((Err(StreamError::Unimplemented), (script, seen, true)));
                }
                if now.cuts != cuts || now.is_down || now.is_silent {
                    let error = StreamError::Failed { code: tonic::Code::Unknown, message: "cut".to_owned() };
                    return if now.ends_well { None } else { Some((Err(error), (script, seen, true))) };
                }
                if let Some((number, message)) = now.said.filter(|(number, _)| *number > seen) {
                    return Some((Ok(message.as_ref().clone()), (script, number, false)));
                }
                if script.changed().await.is_err() {
                    return None;
                }
            }
        });
        Ok(messages.boxed())
    }
}

/// The tasks in a daemon that can be restarted, with its surroundings.
pub(super) struct Daemon {
    pub(super) api: FakeApi,
    pub(super) drivers: ScriptedDrivers,
    pub(super) node: watch::Sender<Option<Arc<Node>>>,
    pub(super) events: Arc<Mutex<Vec<NodeEvent>>>,
    pub(super) dra: Dra,
    pub(super) publishes: bool,
    instances: Vec<Arc<PluginInstance>>,
    next_instance: u64,
    task: Option<(CancellationToken, tokio::task::JoinHandle<()>)>,
    nodes: u64,
}

impl Daemon {
    pub(super) fn new() -> Self {
        let mut daemon = Self {
            api: FakeApi::new(WallClock::of_tokio(Timestamp::UNIX_EPOCH)),
            drivers: ScriptedDrivers::default(),
            node: watch::Sender::default(),
            events: Arc::default(),
            dra: Dra::new(WallClock::system()),
            publishes: true,
            instances: Vec::new(),
            next_instance: 0,
            task: None,
            nodes: 0,
        };
        daemon.create_node();
        daemon
    }

    /// Starts the daemon, or restarts it. Live plugins register again.
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    pub(super) fn start(&mut self) {
        self.stop();
        self.dra = Dra::new(WallClock::of_tokio(Timestamp::UNIX_EPOCH));
        let settings = DraSettings { node: NODE.to_owned(), publishes: self.publishes };
        let events = self.events.clone();
        let recorder = Arc::new(move |event| events.lock().push(event));
        let task = DraTask::new(&self.dra, settings, self.api.client(), self.node.subscribe(), recorder)
            .with_dial(Arc::new(self.drivers.clone()));
        let cancel = CancellationToken::new();
        self.task = Some((cancel.clone(), tokio::spawn(task.run(cancel))));
        for old in std::mem::take(&mut self.instances) {
            self.next_instance += 1;
            let again = Arc::new(PluginInstance { id: InstanceId(self.next_instance), ..(*old).clone() });
            self.instances.push(again.clone());
            self.dra.changed(PluginEvent::Registered(again));
        }
    }

    pub(super) fn stop(&mut self) {
        if let Some((cancel, task)) = self.task.take() {
            cancel.cancel();
            task.abort();
        }
    }

    /// Registers an instance; returns its socket.
    pub(super) fn register(&mut self, driver: &str) -> PathBuf {
        self.next_instance += 1;
        let socket = PathBuf::from(format!("/plugins/{driver}/{}.sock", self.next_instance));
        self.drivers.change(&socket, |_| {});
        self.register_at(driver, &socket);
        socket
    }

    /// Registers an instance with this socket.
    pub(super) fn register_at(&mut self, driver: &str, socket: &Path) {
        self.next_instance += 1;
        let instance = Arc::new(PluginInstance {
            id: InstanceId(self.next_instance),
            name: driver.to_owned(),
            endpoint: socket.to_owned(),
            versions: vec!["1.0.0".to_owned()],
            socket: socket.to_owned(),
            since: Timestamp::UNIX_EPOCH,
        });
        self.instances.push(instance.clone());
        self.dra.changed(PluginEvent::Registered(instance));
    }

    /// Rejects an instance of this name.
    pub(super) fn reject(&self, driver: &str) {
        self.dra.changed(PluginEvent::Rejected { name: driver.to_owned() });
    }

    /// Puts a slice that a driver publishes by itself, on this node or another.
    pub(super) fn put_own(&self, driver: &str, node: &str) -> String {
        let path = format!("{SLICES}/{node}-{driver}");
        let spec = json!({"driver": driver, "nodeName": node, "devices": [{"name": "own"}],
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}});
        self.api.put(&path, &json!({"metadata": {"name": format!("{node}-{driver}")}, "spec": spec}));
        path
    }

    /// Whether an object is there.
    pub(super) fn has(&self, path: &str) -> bool {
        self.api.get::<Value>(path).is_some()
    }

    /// Deregisters the instances with this socket.
    pub(super) fn deregister(&mut self, socket: &Path) {
        let (gone, left) =
            std::mem::take(&mut self.instances).into_iter().partition(|it| it.endpoint == socket);
        self.instances = left;
        for instance in gone {
            self.dra.changed(PluginEvent::Deregistered(instance));
        }
    }

    /// The instance with this socket can be reached, or not.
    pub(super) fn connected(&self, socket: &Path, is_connected: bool) {
        for instance in self.instances.iter().filter(|it| it.endpoint == socket).cloned() {
            self.dra.changed(match is_connected {
                true => PluginEvent::Connected(instance),
                false => PluginEvent::Disconnected(instance),
            });
        }
    }

    /// The sockets of a driver's instances, the oldest first.
    pub(super) fn sockets(&self, driver: &str) -> Vec<PathBuf> {
        self.instances.iter().filter(|it| it.name == driver).map(|it| it.endpoint.clone()).collect()
    }

    /// Creates the Node with another UID.
    pub(super) fn create_node(&mut self) {
        self.nodes += 1;
        let metadata = json!({"name": NODE, "uid": self.node_uid()});
        let node: Node = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        self.node.send_replace(Some(Arc::new(node)));
    }

    pub(super) fn node_uid(&self) -> String {
        format!("node-uid-{}", self.nodes)
    }

    /// Deletes the Node, and its slices as the garbage collector does.
    pub(super) fn delete_node(&mut self) {
        self.node.send_replace(None);
        let uid = self.node_uid();
        for slice in self.api.list::<Value>(SLICES) {
            if slice["metadata"]["ownerReferences"][0]["uid"] == uid {
                self.api.delete(&format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap()), None);
            }
        }
    }

    /// hostlet's slices of a driver.
    pub(super) fn slices(&self, driver: &str) -> Vec<Value> {
        let all = self.api.list::<Value>(SLICES);
        let is_ours = |slice: &Value| {
            slice["spec"]["driver"] == driver && slice["spec"]["pool"]["name"] == "node1/hostlet"
        };
        all.into_iter().filter(is_ours).collect()
    }

    /// What the scheduler sees of a driver: the devices of a complete pool, or what is wrong with it.
    pub(super) fn published(&self, driver: &str) -> Result<Devices, String> {
        let slices = self.slices(driver);
        let mut all = Devices::new();
        for slice in &slices {
            let pool = &slice["spec"]["pool"];
            if pool["generation"] != slices[0]["spec"]["pool"]["generation"] {
                return Err("two generations".to_owned());
            }
            if pool["resourceSliceCount"] != slices.len() {
                return Err(format!("{} slices of {}", slices.len(), pool["resourceSliceCount"]));
            }
            if slice["metadata"]["ownerReferences"][0]["uid"] != self.node_uid() {
                return Err("another owner".to_owned());
            }
            for device in slice["spec"]["devices"].as_array().unwrap() {
                let value = device["attributes"]["generation"]["int"].as_i64().unwrap();
                if all.insert(device["name"].as_str().unwrap().to_owned(), value).is_some() {
                    return Err(format!("{} twice", device["name"]));
                }
            }
        }
        Ok(all)
    }

    /// Waits until exactly these devices are published.
    pub(super) async fn publishes(&self, driver: &str, expected: &Devices, limit: Duration) -> Duration {
        let began = Instant::now();
        loop {
            let published = self.published(driver);
            if published.as_ref() == Ok(expected) {
                return began.elapsed();
            }
            let (got, wanted) = (published.map(|all| all.len()), expected.len());
            assert!(
                began.elapsed() < limit,
                "published {got:?} of {wanted} after {limit:?}: {:?}",
                self.dra.describe(driver)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The writes of slices so far, without dry runs.
    pub(super) fn writes(&self) -> Vec<Recorded> {
        let is_write = |request: &Recorded| ["POST", "PUT", "PATCH", "DELETE"].contains(&&*request.method);
        let is_probe = |request: &Recorded| request.body["spec"]["devices"][0]["name"] == "probe";
        self.api
            .requests()
            .into_iter()
            .filter(|request| {
                request.path.contains("resourceslices") && is_write(request) && !is_probe(request)
            })
            .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

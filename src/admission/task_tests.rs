//! The task, from what the sources say to what is told.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PodStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::api::fake::{ApiFault, ApiRule, FakeApi};
use crate::node::testing::{facts, settings};
use crate::node::{NodeSight, Pressure};
use crate::pod::AdmittedPod;
use crate::source::api::ApiPod;
use crate::status::PodStatusEntry;
use crate::store::Store;
use crate::sys::Machine;
use crate::types::CONFIG_SOURCE_ANNOTATION;

const NODE: &str = "/api/v1/nodes/n1";

struct Room {
    api: watch::Sender<ApiState>,
    status_cache: StatusCache,
    desired_pods: watch::Receiver<DesiredPods>,
    rejected: watch::Receiver<Vec<RejectedPod>>,
    events: Arc<Mutex<Vec<String>>>,
    server: FakeApi,
    reader: NodeReader,
    machine: watch::Sender<Machine>,
    pressures: watch::Sender<Pressures>,
    _manifests: watch::Sender<SourceState>,
    _running: DropGuard,
}

/// A node of 2 CPUs in a cluster, whose sources were read.
async fn room() -> Room {
    let (manifests_in, manifests) = watch::channel(SourceState { ready: true, ..SourceState::default() });
    let (api, api_out) = watch::channel(ApiState { ready: true, ..ApiState::default() });
    let (server, sight) = (FakeApi::new(WallClock::system()), NodeSight::default());
    server.put(NODE, &Node { metadata: metadata("n1"), ..Node::default() });
    let limit = Duration::from_secs(10);
    let reader = NodeReader::new(server.client(), "n1".to_owned(), limit, sight.clone());
    reader.read().await.unwrap();
    let (desired_in, desired_pods) = watch::channel(DesiredPods::default());
    let (rejected_in, rejected) = watch::channel(Vec::new());
    let (status_cache, events) = (StatusCache::default(), Arc::new(Mutex::new(Vec::new())));
    let machine = watch::Sender::new(facts().host.machine);
    let pressures = watch::Sender::default();
    let inputs = AdmissionInputs {
        manifests,
        api: api_out,
        own: NodeView { name: "n1".to_owned(), ..NodeView::default() },
        resources: OwnNodeWatch::new(Arc::new(settings()), machine.subscribe()),
        pressures: pressures.subscribe(),
        node: sight.subscribe(),
        reader: Some(reader.clone()),
        status_cache: status_cache.clone(),
        allowed_unsafe_sysctls: Vec::new(),
    };
    let told = events.clone();
    let (admitted, _) = AdmittedPods::new(Store::default());
    let judged = Judged {
        desired_pods: desired_in,
        rejected: rejected_in,
        admitted,
        events: Arc::new(move |pod, _, event| told.lock().push(format!("{} {}", pod.name, event.reason))),
        clock: WallClock::system(),
    };
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(Admission::new(inputs, judged).run(cancel.clone()));
    let (_manifests, _running) = (manifests_in, cancel.drop_guard());
    Room {
        api,
        status_cache,
        desired_pods,
        rejected,
        events,
        server,
        reader,
        machine,
        pressures,
        _manifests,
        _running,
    }
}

fn pod(name: &str, cpu: &str, priority: i32) -> Arc<Pod> {
    let annotations = json!({CONFIG_SOURCE_ANNOTATION: "api"});
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "annotations": annotations});
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let spec = json!({"priority": priority, "containers": [container]});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// A pod for nodes with the label `disk: ssd`.
fn choosy(name: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(name, "100m", 0));
    let selector = [("disk".to_owned(), "ssd".to_owned())].into();
    pod.spec.as_mut().unwrap().node_selector = Some(selector);
    Arc::new(pod)
}

impl Room {
    /// Somebody labels the Node, of which this daemon has not heard yet.
    fn label(&self) {
        let labels = Some([("disk".to_owned(), "ssd".to_owned())].into());
        let node = Node { metadata: ObjectMeta { labels, ..metadata("n1") }, ..Node::default() };
        self.server.put(NODE, &node);
    }

    /// The API server shows the pod with another status.
    fn give(&self, pod: &Arc<Pod>, version: &str) {
        let given = ApiPod {
            pod: pod.clone(),
            status: Arc::new(PodStatus::default()),
            version: version.to_owned(),
            unsupported: Vec::new(),
            resize: None,
        };
        self.api.send_modify(|state| drop(state.pods.insert(pod_uid(pod), Arc::new(given))));
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn desired_pods(&self) -> Vec<String> {
        self.desired_pods.borrow().pods.iter().map(|pod| pod_ref(pod).name.to_string()).collect()
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_that_come_back_are_news_to_nobody() {
    let mut room = room().await;
    let (runs, greedy) = (pod("runs", "1", 0), pod("greedy", "5", 0));
    room.give(&runs, "1");
    room.give(&greedy, "1");
    room.settle().await;
    assert_eq!(room.desired_pods(), ["runs"]);
    assert_eq!(room.events(), ["greedy OutOfcpu"]);
    room.desired_pods.mark_unchanged();
    room.rejected.mark_unchanged();
    room.give(&runs, "2");
    room.give(&greedy, "2");
    room.settle().await;
    assert!(!room.desired_pods.has_changed().unwrap() && !room.rejected.has_changed().unwrap());
    assert_eq!(room.events(), ["greedy OutOfcpu"], "told once");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_runs_when_those_who_make_it_have_ended() {
    let room = room().await;
    let (small, vital) = (pod("small", "1500m", 0), pod("vital", "1", 2_000_000_000));
    room.give(&small, "1");
    room.settle().await;
    room.give(&vital, "1");
    room.settle().await;
    assert_eq!(
        (room.desired_pods(), room.events()),
        (vec!["small".to_owned()], vec!["small Preempting".to_owned()])
    );
    assert!(room.desired_pods.borrow().kills.contains_key("small"));
    room.status_cache.tell(PodStatusEntry {
        pod: AdmittedPod::new(small),
        status: Arc::new(PodStatus::default()),
        terminating_since: None,
        lifecycle: LifecycleSummary::Terminated,
        has_released: false,
    });
    room.settle().await;
    assert_eq!(room.desired_pods(), ["small", "vital"]);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_was_given_a_moment_before_the_pod_came_counts() {
    let room = room().await;
    room.label();
    room.give(&choosy("choosy"), "1");
    room.settle().await;
    assert_eq!((room.desired_pods(), room.events()), (vec!["choosy".to_owned()], Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_was_taken_away_a_moment_before_the_pod_came_does_not_count() {
    let room = room().await;
    let taint = Taint { key: "k".to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
    let mut tainted = Node { metadata: metadata("n1"), ..Node::default() };
    tainted.spec.get_or_insert_default().taints = Some(vec![taint]);
    room.server.put(NODE, &tainted);
    room.reader.read().await.unwrap();
    room.settle().await;
    room.server.put(NODE, &Node { metadata: metadata("n1"), ..Node::default() });
    room.give(&pod("late", "100m", 0), "1");
    room.settle().await;
    assert_eq!((room.desired_pods(), room.events()), (vec!["late".to_owned()], Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_node_does_not_take_is_rejected_once_that_is_sure() {
    let room = room().await;
    room.server.fail(ApiRule::once("GET", NODE, ApiFault::Hang));
    room.server.fail(ApiRule { times: 3, ..ApiRule::always("GET", NODE, ApiFault::Reset) });
    room.give(&choosy("choosy"), "1");
    room.give(&pod("other", "100m", 0), "1");
    room.settle().await;
    assert_eq!(room.desired_pods(), ["other"], "nobody else waits");
    assert!(room.rejected.borrow().is_empty(), "the API server has not answered yet");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (room.desired_pods(), room.events()),
        (vec!["other".to_owned()], vec!["choosy NodeAffinity".to_owned()])
    );
    room.label();
    room.give(&choosy("next"), "1");
    room.settle().await;
    assert_eq!(room.desired_pods(), ["other", "next"], "one that was rejected stays so");
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_read_its_node_judges_by_what_was_seen() {
    let room = room().await;
    let forbidden = ApiFault::Refuse { code: 403, reason: "Forbidden", retry_after: 0 };
    room.server.fail(ApiRule::always("GET", NODE, forbidden));
    room.give(&choosy("choosy"), "1");
    room.settle().await;
    assert_eq!(room.events(), ["choosy NodeAffinity"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_grew_takes_more() {
    let room = room().await;
    room.give(&pod("early", "3", 0), "1");
    room.settle().await;
    room.machine.send_modify(|machine| machine.cpus = 4);
    room.give(&pod("late", "3", 0), "1");
    room.settle().await;
    assert_eq!(
        (room.desired_pods(), room.events()),
        (vec!["late".to_owned()], vec!["early OutOfcpu".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_short_of_disk_takes_no_new_pod_until_it_is_not() {
    let room = room().await;
    room.give(&pod("runs", "100m", 0), "1");
    room.settle().await;
    room.pressures.send_replace([Pressure::Disk].into());
    room.give(&pod("late", "100m", 0), "1");
    room.give(&pod("vital", "100m", 2_000_000_000), "1");
    room.settle().await;
    assert_eq!(room.desired_pods(), ["runs", "vital"]);
    assert_eq!(room.events(), ["late Evicted"]);
    let message = room.rejected.borrow()[0].status.message.clone();
    assert_eq!(message.as_deref(), Some("Pod was rejected: The node had condition: [DiskPressure]. "));
    room.pressures.send_replace(Pressures::default());
    room.give(&pod("next", "100m", 0), "1");
    room.settle().await;
    assert_eq!(room.desired_pods(), ["runs", "vital", "next"], "one that was rejected stays so");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_others_advertise_on_the_node_is_given_as_often_as_it_is_there() {
    let room = room().await;
    let mut node = Node { metadata: metadata("n1"), ..Node::default() };
    let dongles = ("example.com/dongle".to_owned(), ApiQuantity("1".to_owned()));
    // What the node's CPUs are is for itself to say.
    let cpus = ("cpu".to_owned(), ApiQuantity("64".to_owned()));
    node.status.get_or_insert_default().allocatable = Some([dongles, cpus].into());
    room.server.put(NODE, &node);
    room.reader.read().await.unwrap();
    let holds = |name: &str, cpu: &str| {
        let mut pod = Pod::clone(&pod(name, cpu, 0));
        let resources = pod.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap();
        let requests = resources.requests.as_mut().unwrap();
        requests.insert("example.com/dongle".to_owned(), ApiQuantity("1".to_owned()));
        requests.insert("example.com/license".to_owned(), ApiQuantity("1".to_owned()));
        Arc::new(pod)
    };
    for (name, cpu) in [("large", "3"), ("first", "1"), ("second", "1")] {
        room.give(&holds(name, cpu), "1");
        room.settle().await;
    }
    assert_eq!(room.desired_pods(), ["first"]);
    assert_eq!(room.events(), ["large OutOfcpu", "second OutOfexample.com/dongle"]);
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_cannot_be_done_is_told_once_for_each_time_it_is_asked_for() {
    let room = room().await;
    let pod = pod("a", "100m", 0);
    let resized = |message: &str| {
        let message = Some(message.to_owned());
        room.api.send_modify(|state| {
            let mut known = ApiPod::clone(&state.pods[&pod_uid(&pod)]);
            // As the source replaces a pod whose generation changed.
            known.pod = Arc::new(Pod::clone(&known.pod));
            known.resize = message;
            state.pods.insert(pod_uid(&pod), Arc::new(known));
        });
    };
    room.give(&pod, "1");
    room.settle().await;
    for (message, told) in
        [("Pod resize Infeasible: 2", 1), ("Pod resize Infeasible: 2", 1), ("Pod resize Infeasible: 3", 2)]
    {
        resized(message);
        room.settle().await;
        assert_eq!(room.events(), vec!["a ResizeInfeasible"; told]);
    }
}

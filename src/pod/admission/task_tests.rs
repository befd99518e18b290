//! The task, from what the sources say to what is told.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::super::node::Allocatable;
use super::*;
use crate::pod::Told;
use crate::pod::source::api::ApiPod;
use crate::store::Store;
use crate::types::CONFIG_SOURCE_ANNOTATION;

struct Room {
    api: watch::Sender<ApiState>,
    board: StatusBoard,
    wanted: watch::Receiver<WantedPods>,
    refused: watch::Receiver<Vec<RefusedPod>>,
    events: Arc<Mutex<Vec<String>>>,
    _others: (watch::Sender<SourceState>, watch::Sender<Option<Arc<Node>>>),
    _running: DropGuard,
}

/// A node of 2 CPUs in a cluster, whose sources were read.
fn room() -> Room {
    let (manifests_in, manifests) = watch::channel(SourceState { ready: true, ..SourceState::default() });
    let (api, api_out) = watch::channel(ApiState { ready: true, ..ApiState::default() });
    let (node_in, node) = watch::channel(Some(Arc::new(Node::default())));
    let (wanted_in, wanted) = watch::channel(WantedPods::default());
    let (refused_in, refused) = watch::channel(Vec::new());
    let (board, events) = (StatusBoard::default(), Arc::new(Mutex::new(Vec::new())));
    let allocatable = Allocatable { milli_cpu: 2000, memory: 1 << 30, ephemeral_storage: None, pods: 9 };
    let inputs = AdmissionInputs {
        manifests,
        api: api_out,
        own: NodeView { name: "n1".to_owned(), allocatable, ..NodeView::default() },
        node,
        board: board.clone(),
        allowed_unsafe_sysctls: Vec::new(),
    };
    let told = events.clone();
    let (admitted, _) = AdmittedPods::new(Store::default());
    let judged = Judged {
        wanted: wanted_in,
        refused: refused_in,
        admitted,
        events: Arc::new(move |pod, _, event| {
            told.lock().unwrap().push(format!("{} {}", pod.name, event.reason))
        }),
        clock: WallClock::system(),
    };
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(Admission::new(inputs, judged).run(cancel.clone()));
    let _others = (manifests_in, node_in);
    Room { api, board, wanted, refused, events, _others, _running: cancel.drop_guard() }
}

fn pod(name: &str, cpu: &str, priority: i32) -> Arc<Pod> {
    let annotations = json!({CONFIG_SOURCE_ANNOTATION: "api"});
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "annotations": annotations});
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let spec = json!({"priority": priority, "containers": [container]});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

impl Room {
    /// The API server shows the pod with another status.
    fn give(&self, pod: &Arc<Pod>, version: &str) {
        let given = ApiPod {
            pod: pod.clone(),
            status: Arc::new(PodStatus::default()),
            version: version.to_owned(),
            unsupported: Vec::new(),
        };
        self.api.send_modify(|state| drop(state.pods.insert(pod_uid(pod), Arc::new(given))));
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn wanted(&self) -> Vec<String> {
        self.wanted.borrow().pods.iter().map(|pod| pod_ref(pod).name.to_string()).collect()
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_that_come_back_are_news_to_nobody() {
    let mut room = room();
    let (runs, greedy) = (pod("runs", "1", 0), pod("greedy", "5", 0));
    room.give(&runs, "1");
    room.give(&greedy, "1");
    room.settle().await;
    assert_eq!(room.wanted(), ["runs"]);
    assert_eq!(room.events(), ["greedy OutOfcpu"]);
    room.wanted.mark_unchanged();
    room.refused.mark_unchanged();
    room.give(&runs, "2");
    room.give(&greedy, "2");
    room.settle().await;
    assert!(!room.wanted.has_changed().unwrap() && !room.refused.has_changed().unwrap());
    assert_eq!(room.events(), ["greedy OutOfcpu"], "told once");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_runs_when_those_who_make_it_have_ended() {
    let room = room();
    let (small, vital) = (pod("small", "1500m", 0), pod("vital", "1", 2_000_000_000));
    room.give(&small, "1");
    room.settle().await;
    room.give(&vital, "1");
    room.settle().await;
    assert_eq!(
        (room.wanted(), room.events()),
        (vec!["small".to_owned()], vec!["small Preempting".to_owned()])
    );
    assert!(room.wanted.borrow().ended.contains_key("small"));
    room.board.tell(Told {
        pod: small,
        status: Arc::new(PodStatus::default()),
        terminating_since: None,
        lifecycle: Lifecycle::Terminated,
        has_given_back: false,
    });
    room.settle().await;
    assert_eq!(room.wanted(), ["small", "vital"]);
}

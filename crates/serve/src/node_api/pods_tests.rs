//! The lists of pods.

use hostlet_observe::status::{PodStatusEntry, StatusCache};
use hostlet_pod::{AdmittedPod, ApiPod, ApiState};
use serde_json::json;
use tokio::sync::watch;

use super::super::testing::{Bench, ask, object, web};
use super::*;

fn lists(bench: &Bench, api: ApiState) -> PodLists {
    PodLists {
        pods: PodDirectory::new(
            bench.status_cache.clone(),
            watch::channel(Vec::new()).1,
            watch::channel(api).1,
        ),
        observed: bench.pleg.cache().clone(),
        has_allocated: true,
    }
}

#[tokio::test(start_paused = true)]
async fn pods_have_the_spec_of_their_source_and_the_latest_status() {
    let bench = Bench::new().await;
    let mut resized = web();
    resized.spec.as_mut().unwrap().containers[0].image = Some("img:2".to_owned());
    let pod = ApiPod {
        pod: Arc::new(resized),
        status: Arc::default(),
        version: "2".to_owned(),
        unsupported: Vec::new(),
    };
    let mut api = ApiState { ready: true, ..ApiState::default() };
    api.pods.insert(hostlet_pod::pod_uid(&web()), Arc::new(pod));
    let lists = lists(&bench, api);
    for path in ["/pods", "/pods/"] {
        let expected = json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {},
            "items": [{
                "metadata": {"name": "web", "namespace": "default", "uid": "uid-1", "resourceVersion": "2"},
                "spec": {"containers": [{"name": "c", "image": "img:2"}, {"name": "d", "image": "img:1"}]},
                "status": {"phase": "Running"},
            }],
        });
        assert_eq!(object(lists.clone().routes(), path).await, expected);
    }
    let allocated = object(lists.clone().debugging_routes(), "/allocatedPods").await;
    assert_eq!(allocated["items"][0]["spec"]["containers"][0]["image"], "img:1");
    assert_eq!(allocated["items"][0]["status"], json!({}));
    let one = object(lists.clone().debugging_routes(), "/allocatedPods/default/web/uid-1").await;
    assert_eq!((one["kind"].as_str(), one["metadata"]["name"].as_str()), (Some("Pod"), Some("web")));
    let (status, _, text) = ask(lists.debugging_routes(), "GET", "/allocatedPods/default/web/uid-2").await;
    assert_eq!((status, text.as_str()), (404, "pod not found"));
}

#[tokio::test(start_paused = true)]
async fn only_active_pods_are_allocated_and_of_one_name_the_active_one_is_found() {
    let bench = Bench::new().await;
    let report = |name: &str, uid: &str, phase: &str, lifecycle| {
        let mut pod = web();
        (pod.metadata.name, pod.metadata.uid) = (Some(name.to_owned()), Some(uid.to_owned()));
        // Unknown of one whose containers have stopped.
        let is_terminating = lifecycle == LifecycleSummary::Terminating;
        bench.status_cache.report(PodStatusEntry {
            pod: AdmittedPod::new(pod),
            status: Arc::new(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }),
            terminating_since: is_terminating.then_some(jiff::Timestamp::UNIX_EPOCH),
            lifecycle,
            has_released: false,
        });
    };
    report("done", "uid-2", "Succeeded", LifecycleSummary::Active);
    report("ended", "uid-3", "Running", LifecycleSummary::Terminated);
    report("ending", "uid-4", "Failed", LifecycleSummary::Terminating);
    for n in 0..20 {
        report("web", &format!("old-{n}"), "Running", LifecycleSummary::Terminating);
        report("web", &format!("older-{n}"), "Failed", LifecycleSummary::Terminated);
    }
    let lists = lists(&bench, ApiState::default());
    let all = object(lists.clone().debugging_routes(), "/allocatedPods").await;
    let names: Vec<_> =
        all["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!((names.len(), names[0].as_str()), (22, Some("ending")), "{names:?}");
    for (path, uid) in [("web", Some("uid-1")), ("ending", Some("uid-4")), ("done", None), ("ended", None)] {
        let path = format!("/allocatedPods/default/{path}");
        let (status, _, text) = ask(lists.clone().debugging_routes(), "GET", &path).await;
        match uid {
            Some(uid) => assert!(status == 200 && text.contains(&format!("\"uid\":\"{uid}\"")), "{text}"),
            None => assert_eq!((status, text.as_str()), (404, "pod not found"), "{path}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn running_pods_are_what_the_runtime_runs() {
    let bench = Bench::new().await;
    let list = object(lists(&bench, ApiState::default()).debugging_routes(), "/runningpods/").await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["metadata"], json!({"name": "web", "namespace": "default", "uid": "uid-1"}));
    let containers = items[0]["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), containers[0]["name"].as_str()), (1, Some("c")));
    assert_eq!((&containers[0]["resources"], &items[0]["status"]), (&json!({}), &json!({})));
}

#[tokio::test(start_paused = true)]
async fn a_node_without_pods_has_no_items_and_lists_are_only_read() {
    let bench = Bench::new().await;
    let no_pods = PodDirectory::of(StatusCache::default());
    let empty = PodLists { pods: no_pods, ..lists(&bench, ApiState::default()) };
    let (status, _, text) = ask(empty.clone().routes(), "GET", "/pods").await;
    assert_eq!(
        (status, text.as_str()),
        (200, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":null}\n")
    );
    let (status, headers, _) = ask(empty.routes(), "POST", "/pods").await;
    assert_eq!((status, headers["allow"].to_str().unwrap()), (405, "GET"));
}

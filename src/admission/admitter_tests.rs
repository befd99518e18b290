//! Sequences of decisions on pods from both sources.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::pod::validation::FieldPath;
use crate::source::api::ApiPod;
use crate::source::{ManifestOrigin, StaticPod};
use crate::types::testing::resource_list;
use crate::types::{CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION, Quantity};

/// A node, its sources, and what was decided so far.
struct World {
    admitter: Admitter,
    manifests: SourceState,
    api: ApiState,
    admitted: HashMap<PodUid, Timestamp>,
    terminated: HashSet<PodUid>,
    node: NodeView,
    is_node_known: bool,
    confirmed: Option<HashSet<PodUid>>,
    decisions: i64,
}

impl World {
    fn new(pods: u64) -> Self {
        let mut allocatable = resource_list([("cpu", "2"), ("memory", "1Gi")]);
        allocatable.set("pods", Quantity::count(pods));
        Self {
            admitter: Admitter::new(Vec::new()),
            manifests: SourceState { ready: true, ..SourceState::default() },
            api: ApiState { ready: true, ..ApiState::default() },
            admitted: HashMap::new(),
            terminated: HashSet::new(),
            node: NodeView { name: "n1".to_owned(), allocatable, ..NodeView::default() },
            is_node_known: true,
            confirmed: None,
            decisions: 0,
        }
    }

    fn manifest(&mut self, pod: Pod) {
        let file = format!("/m/{}.yaml", pod.metadata.name.as_deref().unwrap());
        let pod = StaticPod {
            pod: Arc::new(pod),
            origin: ManifestOrigin::File(file.into()),
            unsupported: Vec::new(),
        };
        self.manifests.pods.push(Arc::new(pod));
    }

    fn give(&mut self, pod: Pod) {
        self.give_unsupported(pod, Vec::new());
    }

    fn give_unsupported(&mut self, pod: Pod, unsupported: Vec<FieldError>) {
        let uid = pod_uid(&pod);
        let status = Arc::new(pod.status.clone().unwrap_or_default());
        let given = ApiPod { pod: Arc::new(pod), status, version: "1".to_owned(), unsupported, resize: None };
        self.api.pods.insert(uid, Arc::new(given));
    }

    /// Decides, and remembers which pods were admitted as the task does.
    fn decide(&mut self) -> Decisions {
        self.decisions += 1;
        let decisions = self.admitter.review(&AdmissionInput {
            manifests: &self.manifests,
            api: &self.api,
            admitted: &self.admitted,
            terminated: &self.terminated,
            node: &self.node,
            is_node_known: self.is_node_known,
            confirmed: self.confirmed.as_ref(),
            shutdown: &NodeShutdown::default(),
            evicted: &BTreeMap::new(),
        });
        let now = Timestamp::from_second(self.decisions).unwrap();
        let uids: Vec<PodUid> = decisions.desired_pods.pods.iter().map(|pod| pod_uid(pod)).collect();
        self.admitted.retain(|uid, _| uids.contains(uid));
        for uid in uids {
            self.admitted.entry(uid).or_insert(now);
        }
        decisions
    }

    /// A new daemon: only the record of admitted pods remains.
    fn restart(&mut self) {
        self.admitter = Admitter::new(Vec::new());
    }
}

fn requesting(name: &str, source: &str, made: i64, cpu: &str) -> Pod {
    let seen = Timestamp::from_second(made).unwrap();
    let annotations = json!({CONFIG_SOURCE_ANNOTATION: source, CONFIG_SEEN_ANNOTATION: seen.to_string()});
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "annotations": annotations});
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let mut pod: Pod =
        serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).unwrap();
    pod.metadata.creation_timestamp = Some(Time(seen));
    pod
}

fn api(name: &str, made: i64, cpu: &str) -> Pod {
    requesting(name, "api", made, cpu)
}

fn names(decisions: &Decisions) -> Vec<String> {
    decisions.desired_pods.pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

fn rejected(decisions: &Decisions) -> Vec<(String, String)> {
    let told = |rejected: &RejectedPod| {
        (rejected.pod.metadata.name.clone().unwrap(), rejected.status.reason.clone().unwrap())
    };
    decisions.rejected.iter().map(told).collect()
}

fn pair(name: &str, reason: &str) -> (String, String) {
    (name.to_owned(), reason.to_owned())
}

#[test]
fn static_pods_come_first_then_pods_in_order_of_creation() {
    let mut world = World::new(3);
    world.give(api("late", 9, "0"));
    world.give(api("early", 1, "0"));
    world.manifest(requesting("own-late", "file", 8, "0"));
    world.manifest(requesting("own", "file", 7, "0"));
    let decisions = world.decide();
    assert_eq!(names(&decisions), ["own", "own-late", "early"]);
    assert_eq!(rejected(&decisions), [pair("late", "OutOfpods")]);
    let message = decisions.rejected[0].status.message.clone().unwrap();
    assert_eq!(
        message,
        "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    );
    assert_eq!(decisions.rejected[0].status.qos_class.as_deref(), Some("BestEffort"));
}

#[test]
fn an_admitted_pod_stays_admitted() {
    let mut world = World::new(2);
    world.give(api("a", 5, "1"));
    assert_eq!(names(&world.decide()), ["a"]);
    world.give(api("older", 1, "1500m"));
    world.node.labels.clear();
    world.node.allocatable.set("cpu", Quantity::milli(500));
    world.restart();
    let decisions = world.decide();
    assert_eq!(names(&decisions), ["a"]);
    assert_eq!(rejected(&decisions), [pair("older", "OutOfcpu")]);
}

#[test]
fn a_rejected_api_pod_stays_rejected_and_a_static_pod_is_reconsidered() {
    let mut world = World::new(1);
    world.give(api("a", 1, "0"));
    world.decide();
    world.give(api("b", 2, "0"));
    let first = world.decide();
    assert_eq!(rejected(&first), [pair("b", "OutOfpods")]);
    world.api.pods.remove("a");
    let second = world.decide();
    assert_eq!((names(&second), rejected(&second)), (vec![], rejected(&first)));
    assert!(Arc::ptr_eq(&first.rejected[0].status, &second.rejected[0].status), "it is no news");

    let mut world = World::new(9);
    world.manifest(requesting("greedy", "file", 1, "3"));
    assert_eq!(rejected(&world.decide()), [pair("greedy", "OutOfcpu")]);
    world.node.allocatable.set("cpu", Quantity::milli(4000));
    assert_eq!(names(&world.decide()), ["greedy"]);
}

#[test]
fn terminating_pods_are_kept_and_terminated_pods_hold_no_resources() {
    let mut world = World::new(1);
    let mut done = api("done", 1, "2");
    done.status = Some(serde_json::from_value(json!({"phase": "Succeeded"})).unwrap());
    world.give(done);
    let mut going = api("going", 2, "2");
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    world.give(going);
    let decisions = world.decide();
    assert_eq!(names(&decisions), ["done", "going"]);
    world.give(api("next", 3, "1"));
    assert_eq!(rejected(&world.decide()), [pair("next", "OutOfpods")], "one is still going");
    world.terminated.insert("going".into());
    world.give(api("last", 4, "1"));
    assert_eq!(names(&world.decide()), ["done", "going", "last"]);
}

#[test]
fn only_new_api_pods_wait_for_the_node_object() {
    let mut world = World::new(9);
    world.give(api("known", 1, "0"));
    world.decide();
    world.restart();
    world.is_node_known = false;
    world.give(api("new", 2, "0"));
    world.manifest(requesting("own", "file", 3, "0"));
    let decisions = world.decide();
    assert_eq!(names(&decisions), ["known", "own"]);
    assert_eq!(rejected(&decisions), []);
    world.is_node_known = true;
    assert_eq!(names(&world.decide()), ["known", "own", "new"]);
}

#[test]
fn a_critical_pod_is_admitted_after_preemption() {
    let mut world = World::new(9);
    world.give(api("small", 1, "500m"));
    world.give(api("large", 2, "1500m"));
    world.decide();
    world.manifest(requesting("vital", "file", 3, "1"));
    let decisions = world.decide();
    assert!(decisions.is_waiting);
    assert_eq!(names(&decisions), ["small", "large"], "nothing starts before there is room");
    let killed: Vec<_> = decisions.desired_pods.kills.iter().collect();
    assert_eq!(killed.len(), 1);
    assert_eq!((killed[0].0.as_str(), killed[0].1.status.reason.as_str()), ("large", "Preempting"));
    let again = world.decide();
    assert_eq!(
        again.desired_pods.kills, decisions.desired_pods.kills,
        "one is enough, however long it takes"
    );
    world.terminated.insert("large".into());
    let decisions = world.decide();
    assert_eq!(names(&decisions), ["small", "large", "vital"]);
    assert!(!decisions.is_waiting);
}

#[test]
fn unsupported_pods_are_rejected_without_preemption() {
    let mut world = World::new(9);
    world.give(api("a", 1, "2"));
    world.decide();
    let mut vital = api("vital", 2, "2");
    vital.spec.as_mut().unwrap().priority = Some(2_000_000_000);
    world.give_unsupported(vital, vec![FieldError::required(&FieldPath::root("spec"), "x")]);
    let mut foreign = api("foreign", 3, "0");
    foreign.metadata.labels = Some([(OS_LABEL.to_owned(), "windows".to_owned())].into());
    world.give(foreign);
    let decisions = world.decide();
    assert_eq!(
        rejected(&decisions),
        [pair("vital", "PodFeatureUnsupported"), pair("foreign", "PodOSSelectorNodeLabelDoesNotMatch")]
    );
    assert_eq!(decisions.desired_pods.kills, BTreeMap::new());
    let message = decisions.rejected[0].status.message.clone().unwrap();
    assert!(message.starts_with("Pod was rejected: spec"), "{message}");
}

proptest! {
    /// Whatever happens: no pod is both desired and rejected, nothing is admitted beyond capacity, and a restart of the
    /// daemon does not change decisions on running pods.
    #[test]
    fn decisions_hold(
        steps in proptest::collection::vec((0..12u8, 0..4u8, 1..20i64, any::<bool>()), 1..40),
    ) {
        let mut world = World::new(4);
        let mut before: Vec<String> = Vec::new();
        for (slot, action, cpu, restart) in steps {
            let name = format!("p{slot}");
            let uid = PodUid::from(name.as_str());
            match action {
                0 | 1 => world.give(api(&name, i64::from(slot), &format!("{}m", cpu * 100))),
                2 => drop(world.api.pods.remove(&uid)),
                _ => drop(world.terminated.insert(uid)),
            }
            if restart {
                world.restart();
            }
            let decisions = world.decide();
            let desired_pods = names(&decisions);
            prop_assert!(rejected(&decisions).iter().all(|(name, _)| !desired_pods.contains(name)));
            prop_assert_eq!(desired_pods.len() + decisions.rejected.len(), world.api.pods.len());
            for name in before.iter().filter(|name| world.api.pods.contains_key(name.as_str())) {
                prop_assert!(desired_pods.contains(name), "{} was admitted and is not any more", name);
            }
            let pods = &decisions.desired_pods.pods;
            let has_new = pods.iter().any(|pod| !before.contains(&pod.reference.name.to_string()));
            if has_new {
                let is_active =
                    |pod: &&Arc<AdmittedPod>| !pod.has_ended() && !world.terminated.contains(&pod.reference.uid);
                let active = pods.iter().filter(is_active).count();
                prop_assert!(active <= 4, "{} pods are active", active);
            }
            before = desired_pods;
        }
    }
}

#[test]
fn no_pod_is_rejected_because_of_a_stale_node() {
    let mut world = World::new(9);
    world.confirmed = Some(HashSet::new());
    let effect = "NoExecute".to_owned();
    world.node.taints = vec![Taint { key: "k".to_owned(), effect, ..Taint::default() }];
    world.give(api("given", 1, "0"));
    let decisions = world.decide();
    assert!(decisions.rejected.is_empty() && decisions.desired_pods.pods.is_empty());
    assert_eq!(decisions.unconfirmed.len(), 1);
    world.confirmed = Some(decisions.unconfirmed);
    let decisions = world.decide();
    assert_eq!(rejected(&decisions), [pair("given", "TaintToleration")]);
    assert!(decisions.unconfirmed.is_empty());
}

#[test]
fn a_runtime_class_needs_an_api_server() {
    let mut world = World::new(9);
    let mut pod = requesting("kata", "file", 1, "0");
    pod.spec.as_mut().unwrap().runtime_class_name = Some("kata".to_owned());
    world.manifest(pod);
    world.node.is_standalone = true;
    assert_eq!(rejected(&world.decide()), [pair("kata", "PodFeatureUnsupported")]);
    world.node.is_standalone = false;
    assert_eq!(names(&world.decide()), ["kata"]);
}

#[test]
fn strict_groups_need_a_runtime_that_supports_them() {
    let mut world = World::new(9);
    let mut pod = api("strict", 1, "0");
    let policy = Some("Strict".to_owned());
    pod.spec.as_mut().unwrap().security_context.get_or_insert_default().supplemental_groups_policy = policy;
    world.give(pod);
    let undecided = world.decide();
    assert_eq!((names(&undecided), rejected(&undecided)), (vec![], vec![]));
    world.node.strict_groups = Some(true);
    assert_eq!(names(&world.decide()), ["strict"]);

    world.admitted.clear();
    world.node.strict_groups = Some(false);
    assert_eq!(rejected(&world.decide()), [pair("strict", "SupplementalGroupsPolicyNotSupported")]);
}

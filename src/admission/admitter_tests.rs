//! Judgements of pods of both sources, one after the other.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::pod::validation::FieldPath;
use crate::source::StaticPod;
use crate::source::api::ApiPod;
use crate::types::testing::resource_list;
use crate::types::{CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION, Quantity};

/// A node with what was told of it so far.
struct World {
    admitter: Admitter,
    manifests: SourceState,
    api: ApiState,
    admitted: HashMap<PodUid, Timestamp>,
    ended: HashSet<PodUid>,
    node: NodeView,
    is_node_known: bool,
    sure: Option<HashSet<PodUid>>,
    judgements: i64,
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
            ended: HashSet::new(),
            node: NodeView { name: "n1".to_owned(), allocatable, ..NodeView::default() },
            is_node_known: true,
            sure: None,
            judgements: 0,
        }
    }

    fn manifest(&mut self, pod: Pod) {
        let file = format!("/m/{}.yaml", pod.metadata.name.as_deref().unwrap());
        let pod = StaticPod { pod: Arc::new(pod), file: file.into(), unsupported: Vec::new() };
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

    /// Judges, and remembers who was admitted as the task does.
    fn admitter(&mut self) -> Judgement {
        self.judgements += 1;
        let judgement = self.admitter.review(&AdmissionInput {
            manifests: &self.manifests,
            api: &self.api,
            admitted: &self.admitted,
            ended: &self.ended,
            node: &self.node,
            is_node_known: self.is_node_known,
            sure: self.sure.as_ref(),
        });
        let now = Timestamp::from_second(self.judgements).unwrap();
        let uids: Vec<PodUid> = judgement.desired_pods.pods.iter().map(|pod| pod_uid(pod)).collect();
        self.admitted.retain(|uid, _| uids.contains(uid));
        for uid in uids {
            self.admitted.entry(uid).or_insert(now);
        }
        judgement
    }

    /// A new daemon: only who was admitted is remembered.
    fn restart(&mut self) {
        self.admitter = Admitter::new(Vec::new());
    }
}

fn asking(name: &str, source: &str, made: i64, cpu: &str) -> Pod {
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
    asking(name, "api", made, cpu)
}

fn names(judgement: &Judgement) -> Vec<String> {
    judgement.desired_pods.pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

fn rejected(judgement: &Judgement) -> Vec<(String, String)> {
    let told = |rejected: &RejectedPod| {
        (rejected.pod.metadata.name.clone().unwrap(), rejected.status.reason.clone().unwrap())
    };
    judgement.rejected.iter().map(told).collect()
}

fn pair(name: &str, reason: &str) -> (String, String) {
    (name.to_owned(), reason.to_owned())
}

#[test]
fn of_too_many_pods_manifests_run_first_and_then_those_made_first() {
    let mut world = World::new(3);
    world.give(api("late", 9, "0"));
    world.give(api("early", 1, "0"));
    world.manifest(asking("own-late", "file", 8, "0"));
    world.manifest(asking("own", "file", 7, "0"));
    let judgement = world.admitter();
    assert_eq!(names(&judgement), ["own", "own-late", "early"]);
    assert_eq!(rejected(&judgement), [pair("late", "OutOfpods")]);
    let message = judgement.rejected[0].status.message.clone().unwrap();
    assert_eq!(
        message,
        "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    );
    assert_eq!(judgement.rejected[0].status.qos_class.as_deref(), Some("BestEffort"));
}

#[test]
fn who_was_admitted_stays_whoever_comes_and_whatever_the_node_becomes() {
    let mut world = World::new(2);
    world.give(api("a", 5, "1"));
    assert_eq!(names(&world.admitter()), ["a"]);
    world.give(api("older", 1, "1500m"));
    world.node.labels.clear();
    world.node.allocatable.set("cpu", Quantity::milli(500));
    world.restart();
    let judgement = world.admitter();
    assert_eq!(names(&judgement), ["a"]);
    assert_eq!(rejected(&judgement), [pair("older", "OutOfcpu")]);
}

#[test]
fn a_rejected_pod_of_the_api_server_stays_rejected_and_a_manifest_gets_another_chance() {
    let mut world = World::new(1);
    world.give(api("a", 1, "0"));
    world.admitter();
    world.give(api("b", 2, "0"));
    let first = world.admitter();
    assert_eq!(rejected(&first), [pair("b", "OutOfpods")]);
    world.api.pods.remove("a");
    let second = world.admitter();
    assert_eq!((names(&second), rejected(&second)), (vec![], rejected(&first)));
    assert!(Arc::ptr_eq(&first.rejected[0].status, &second.rejected[0].status), "it is no news");

    let mut world = World::new(9);
    world.manifest(asking("greedy", "file", 1, "3"));
    assert_eq!(rejected(&world.admitter()), [pair("greedy", "OutOfcpu")]);
    world.node.allocatable.set("cpu", Quantity::milli(4000));
    assert_eq!(names(&world.admitter()), ["greedy"]);
}

#[test]
fn what_is_leaving_is_not_judged_and_what_ended_holds_nothing() {
    let mut world = World::new(1);
    let mut done = api("done", 1, "2");
    done.status = Some(serde_json::from_value(json!({"phase": "Succeeded"})).unwrap());
    world.give(done);
    let mut going = api("going", 2, "2");
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    world.give(going);
    let judgement = world.admitter();
    assert_eq!(names(&judgement), ["done", "going"]);
    world.give(api("next", 3, "1"));
    assert_eq!(rejected(&world.admitter()), [pair("next", "OutOfpods")], "one is still going");
    world.ended.insert("going".into());
    world.give(api("last", 4, "1"));
    assert_eq!(names(&world.admitter()), ["done", "going", "last"]);
}

#[test]
fn new_pods_of_the_api_server_wait_for_the_node_and_known_ones_do_not() {
    let mut world = World::new(9);
    world.give(api("known", 1, "0"));
    world.admitter();
    world.restart();
    world.is_node_known = false;
    world.give(api("new", 2, "0"));
    world.manifest(asking("own", "file", 3, "0"));
    let judgement = world.admitter();
    assert_eq!(names(&judgement), ["known", "own"]);
    assert_eq!(rejected(&judgement), []);
    world.is_node_known = true;
    assert_eq!(names(&world.admitter()), ["known", "own", "new"]);
}

#[test]
fn a_critical_pod_runs_once_others_have_made_room() {
    let mut world = World::new(9);
    world.give(api("small", 1, "500m"));
    world.give(api("large", 2, "1500m"));
    world.admitter();
    world.manifest(asking("vital", "file", 3, "1"));
    let judgement = world.admitter();
    assert!(judgement.is_waiting);
    assert_eq!(names(&judgement), ["small", "large"], "nothing starts before there is room");
    let ended: Vec<_> = judgement.desired_pods.kills.iter().collect();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].0.as_str(), ended[0].1.status.reason.as_str()), ("large", "Preempting"));
    let again = world.admitter();
    assert_eq!(
        again.desired_pods.kills, judgement.desired_pods.kills,
        "one is enough, however long it takes"
    );
    world.ended.insert("large".into());
    let judgement = world.admitter();
    assert_eq!(names(&judgement), ["small", "large", "vital"]);
    assert!(!judgement.is_waiting);
}

#[test]
fn what_hostlet_does_not_do_is_rejected_before_anybody_makes_room() {
    let mut world = World::new(9);
    world.give(api("a", 1, "2"));
    world.admitter();
    let mut vital = api("vital", 2, "2");
    vital.spec.as_mut().unwrap().priority = Some(2_000_000_000);
    world.give_unsupported(vital, vec![FieldError::required(&FieldPath::root("spec"), "x")]);
    let mut foreign = api("foreign", 3, "0");
    foreign.metadata.labels = Some([(OS_LABEL.to_owned(), "windows".to_owned())].into());
    world.give(foreign);
    let judgement = world.admitter();
    assert_eq!(
        rejected(&judgement),
        [pair("vital", "PodFeatureUnsupported"), pair("foreign", "PodOSSelectorNodeLabelDoesNotMatch")]
    );
    assert_eq!(judgement.desired_pods.kills, BTreeMap::new());
    let message = judgement.rejected[0].status.message.clone().unwrap();
    assert!(message.starts_with("Pod was rejected: spec"), "{message}");
}

proptest! {
    /// Whatever comes and goes: nobody is both desired and rejected, nothing new is admitted beyond what there is, and a new
    /// daemon judges those who run as the one before it did.
    #[test]
    fn judgements_hold(
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
                _ => drop(world.ended.insert(uid)),
            }
            if restart {
                world.restart();
            }
            let judgement = world.admitter();
            let desired_pods = names(&judgement);
            prop_assert!(rejected(&judgement).iter().all(|(name, _)| !desired_pods.contains(name)));
            prop_assert_eq!(desired_pods.len() + judgement.rejected.len(), world.api.pods.len());
            for name in before.iter().filter(|name| world.api.pods.contains_key(name.as_str())) {
                prop_assert!(desired_pods.contains(name), "{} was admitted and is not any more", name);
            }
            let pods = &judgement.desired_pods.pods;
            let has_new = pods.iter().any(|pod| !before.contains(&pod.reference.name.to_string()));
            if has_new {
                let is_active =
                    |pod: &&Arc<AdmittedPod>| !pod.has_ended() && !world.ended.contains(&pod.reference.uid);
                let active = pods.iter().filter(is_active).count();
                prop_assert!(active <= 4, "{} pods are active", active);
            }
            before = desired_pods;
        }
    }
}

#[test]
fn nobody_is_rejected_by_a_node_that_may_have_changed() {
    let mut world = World::new(9);
    world.sure = Some(HashSet::new());
    let effect = "NoExecute".to_owned();
    world.node.taints = vec![Taint { key: "k".to_owned(), effect, ..Taint::default() }];
    world.give(api("given", 1, "0"));
    let judgement = world.admitter();
    assert!(judgement.rejected.is_empty() && judgement.desired_pods.pods.is_empty());
    assert_eq!(judgement.doubtful.len(), 1);
    world.sure = Some(judgement.doubtful);
    let judgement = world.admitter();
    assert_eq!(rejected(&judgement), [pair("given", "TaintToleration")]);
    assert!(judgement.doubtful.is_empty());
}

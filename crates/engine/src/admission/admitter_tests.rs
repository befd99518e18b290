//! Sequences of decisions on pods from both sources.

use hostlet_base::testing::resource_list;
use hostlet_base::{CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION, Quantity};
use hostlet_pod::validation::FieldPath;
use hostlet_pod::{ApiPod, ManifestOrigin};
use hostlet_resources::{Allocator, NodeResources};
use hostlet_telemetry::Metrics;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::admission::by_itself::OS_LABEL;
use crate::source::StaticPod;

/// A node, its sources, and what was decided so far.
struct World {
    admitter: Admitter,
    manifests: SourceState,
    api: ApiState,
    admitted: HashMap<PodUid, Admitted>,
    made: HashSet<PodUid>,
    reported: HashMap<PodUid, ReportedPod>,
    node: NodeView,
    is_node_known: bool,
    confirmed: Option<HashSet<PodUid>>,
    grants: GrantStates,
    exclusive: ExclusiveResources,
    decisions: i64,
}

impl World {
    fn new(pods: u64) -> Self {
        let mut allocatable = resource_list([("cpu", "2"), ("memory", "1Gi")]);
        allocatable.set("pods", Quantity::count(pods));
        Self {
            admitter: Admitter::new(Vec::new(), ResizeLimits::default()),
            manifests: SourceState { ready: true, ..SourceState::default() },
            api: ApiState { ready: true, ..ApiState::default() },
            admitted: HashMap::new(),
            made: HashSet::new(),
            reported: HashMap::new(),
            node: NodeView {
                name: "n1".to_owned(),
                resources: NodeResources::new(allocatable),
                ..NodeView::default()
            },
            is_node_known: true,
            confirmed: None,
            grants: GrantStates::default(),
            exclusive: ExclusiveResources::default(),
            decisions: 0,
        }
    }

    /// A pod has terminated, or one that an earlier daemon admitted has.
    fn terminate(&mut self, name: &str) {
        let admitted = self.admitter.admitted.get(&PodUid::from(name)).map(|admitted| admitted.pod.clone());
        let pod = admitted.unwrap_or_else(|| {
            AdmittedPod::resized(Arc::new(api(name, 0, "0")), ResizeState::default(), AdmissionId::Dropped)
        });
        self.reported.insert(name.into(), ReportedPod { pod, has_terminated: true });
    }

    fn set_cpu(&mut self, amount: Quantity) {
        let mut allocatable = self.node.resources.capacity();
        allocatable.set("cpu", amount);
        self.node.resources = NodeResources::new(allocatable);
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
        let given = ApiPod { pod: Arc::new(pod), status, version: "1".to_owned(), unsupported };
        self.api.pods.insert(uid, Arc::new(given));
    }

    /// Decides, and remembers which pods were admitted as the task does.
    fn decide(&mut self) -> Decisions {
        self.decisions += 1;
        let now = Timestamp::from_second(self.decisions).unwrap();
        let decisions = self.admitter.review(&AdmissionInput {
            manifests: &self.manifests,
            api: &self.api,
            admitted: &self.admitted,
            made: &self.made,
            reported: &self.reported,
            node: &self.node,
            is_node_known: self.is_node_known,
            confirmed: self.confirmed.as_ref(),
            shutdown: &NodeShutdown::default(),
            evicted: &BTreeMap::new(),
            grants: &self.grants,
            exclusive: &self.exclusive,
            now,
            instant: tokio::time::Instant::now(),
        });
        let before = std::mem::take(&mut self.admitted);
        let admitted = decisions.desired_pods.pods.iter().map(|pod| {
            let uid = pod_uid(pod);
            let at = before.get(&uid).map_or(now, |before| before.at);
            (uid, Admitted::of_api(at, pod.object().clone()))
        });
        self.admitted = admitted.collect();
        decisions
    }

    /// A new daemon: only the record of admitted pods remains.
    fn restart(&mut self) {
        self.admitter = Admitter::new(Vec::new(), ResizeLimits::default());
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
    world.set_cpu(Quantity::milli(500));
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
    world.set_cpu(Quantity::milli(4000));
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
    world.terminate("going");
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
    world.terminate("large");
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
        // Of these pods themselves, not of earlier ones with their UIDs.
        let mut ended: HashSet<String> = HashSet::new();
        for (slot, action, cpu, restart) in steps {
            let name = format!("p{slot}");
            let uid = PodUid::from(name.as_str());
            match action {
                0 | 1 => world.give(api(&name, i64::from(slot), &format!("{}m", cpu * 100))),
                2 => drop(world.api.pods.remove(&uid)),
                _ => {
                    world.terminate(&name);
                    ended.extend(before.contains(&name).then_some(name));
                }
            }
            if restart {
                // The statuses of earlier pods are gone with the daemon.
                world.reported.retain(|uid, _| ended.contains(uid.as_str()));
                world.restart();
            }
            let decisions = world.decide();
            let desired_pods = names(&decisions);
            prop_assert!(rejected(&decisions).iter().all(|(name, _)| !desired_pods.contains(name)));
            prop_assert_eq!(desired_pods.len() + decisions.rejected.len(), world.api.pods.len());
            for name in before.iter().filter(|name| world.api.pods.contains_key(name.as_str())) {
                prop_assert!(desired_pods.contains(name), "{} was admitted and is not any more", name);
            }
            ended.retain(|name| before.contains(name) && desired_pods.contains(name));
            if desired_pods.iter().any(|name| !before.contains(name)) {
                let active = desired_pods.iter().filter(|name| !ended.contains(*name)).count();
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

/// What is allocated to a pod: its requested CPU, and the pending resize with its generation.
fn allocated(
    decisions: &Decisions,
    name: &str,
) -> (String, Option<(PendingResizeReason, String, Option<i64>)>) {
    let pod = decisions.desired_pods.pods.iter().find(|pod| &*pod.reference.name == name).unwrap();
    let requests = pod.spec().containers[0].resources.clone().unwrap().requests.unwrap();
    let pending = pod.resize.pending.clone();
    (requests["cpu"].0.clone(), pending.map(|it| (it.reason, it.message, it.generation)))
}

/// The pod as it is after `generation` - 1 changes of its resources.
fn resized(name: &str, cpu: &str, generation: i64) -> Pod {
    let mut pod = api(name, 1, cpu);
    pod.metadata.generation = Some(generation);
    pod
}

fn told(decisions: &Decisions) -> Vec<String> {
    decisions.resizes.iter().map(|(pod, event)| format!("{} {}", pod.name, event.reason)).collect()
}

#[test]
fn a_resize_that_fits_is_allocated_and_one_that_does_not_waits() {
    let mut world = World::new(9);
    world.give(resized("a", "500m", 1));
    world.give(resized("b", "1", 1));
    world.decide();
    world.give(resized("a", "1", 2));
    let decisions = world.decide();
    assert_eq!(
        (allocated(&decisions, "a"), told(&decisions)),
        (("1".into(), None), vec!["a ResizeStarted".to_owned()])
    );
    world.give(resized("a", "1500m", 3));
    let decisions = world.decide();
    let lacking = "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000";
    let deferred = Some((PendingResizeReason::Deferred, lacking.to_owned(), Some(3)));
    assert_eq!(
        (allocated(&decisions, "a"), told(&decisions)),
        (("1".into(), deferred.clone()), vec!["a ResizeDeferred".to_owned()])
    );
    assert!(decisions.is_waiting);
    let message = &decisions.resizes[0].1.message;
    assert!(message.starts_with("Pod resize OutOfcpu: {\"containers\":[{\"name\":\"c\","), "{message}");
    // The very same pod, as long as nothing changes; another daemon goes on from what was allocated.
    assert!(world.decide().desired_pods.is_same(&decisions.desired_pods));
    world.restart();
    let decisions = world.decide();
    assert_eq!(allocated(&decisions, "a"), ("1".into(), deferred));
    world.terminate("b");
    let decisions = world.decide();
    assert_eq!((allocated(&decisions, "a"), decisions.is_waiting), (("1500m".into(), None), false));
    assert_eq!(told(&decisions), ["a ResizeStarted"]);
}

#[test]
fn a_resize_beside_the_status_of_an_earlier_pod_waits_for_the_pod_s_own_status() {
    let mut world = World::new(9);
    world.terminate("a");
    world.give(resized("a", "1", 1));
    world.decide();
    world.give(resized("a", "500m", 2));
    let decisions = world.decide();
    assert_eq!((allocated(&decisions, "a"), decisions.is_waiting), (("1".into(), None), true));
    world.reported.clear();
    let decisions = world.decide();
    assert_eq!((allocated(&decisions, "a"), decisions.is_waiting), (("500m".into(), None), false));
    world.terminate("a");
    world.give(resized("a", "1", 3));
    let decisions = world.decide();
    assert_eq!(
        (allocated(&decisions, "a"), decisions.is_waiting),
        (("500m".into(), None), false),
        "it has ended"
    );
}

#[test]
fn a_pod_holds_its_resources_although_an_earlier_one_with_its_uid_has_just_terminated() {
    let mut world = World::new(1);
    world.give(api("a", 1, "1"));
    world.decide();
    world.terminate("a");
    world.reported.values_mut().for_each(|earlier| earlier.has_terminated = false);
    world.api.pods.clear();
    world.decide();
    world.give(api("a", 1, "1"));
    assert_eq!(names(&world.decide()), ["a"], "while the earlier one still terminates");
    world.reported.values_mut().for_each(|earlier| earlier.has_terminated = true);
    world.give(api("b", 2, "1"));
    let decisions = world.decide();
    assert_eq!(
        (names(&decisions), rejected(&decisions)),
        (vec!["a".to_owned()], vec![pair("b", "OutOfpods")])
    );
    world.terminate("a");
    world.give(api("c", 3, "1"));
    assert_eq!(names(&world.decide()), ["a", "c"]);
}

#[test]
fn a_pod_of_which_something_was_made_keeps_its_place_although_its_admission_was_not_stored() {
    let admitted = |world: &mut World| -> Vec<String> {
        let decisions = world.decide();
        decisions.desired_pods.pods.iter().map(|pod| pod.reference.name.to_string()).collect()
    };
    let mut world = World::new(1);
    world.give(api("earlier", 1, "1"));
    world.give(api("later", 2, "1"));
    world.made.insert("later".into());
    assert_eq!(admitted(&mut world), ["later"]);
    // Without anything of either, the earlier one is first.
    let mut world = World::new(1);
    world.give(api("earlier", 1, "1"));
    world.give(api("later", 2, "1"));
    assert_eq!(admitted(&mut world), ["earlier"]);
}

#[test]
fn a_resize_that_is_taken_back_is_over() {
    let mut world = World::new(9);
    world.give(resized("a", "1", 1));
    world.decide();
    world.give(resized("a", "3", 2));
    assert!(allocated(&world.decide(), "a").1.is_some());
    world.give(resized("a", "1", 3));
    let decisions = world.decide();
    assert_eq!((allocated(&decisions, "a"), told(&decisions).len()), (("1".into(), None), 0));
    assert!(!decisions.is_waiting);
}

#[test]
fn no_resize_is_decided_on_before_all_pods_are_known() {
    let mut world = World::new(9);
    world.give(resized("a", "1", 1));
    world.decide();
    world.restart();
    world.api.ready = false;
    world.give(resized("a", "2", 2));
    assert_eq!(allocated(&world.decide(), "a"), ("1".into(), None));
    world.api.ready = true;
    assert_eq!(allocated(&world.decide(), "a"), ("2".into(), None));
}

#[test]
fn resizes_are_allocated_in_upstreams_order() {
    let mut world = World::new(9);
    for name in ["early", "late", "urgent", "smaller"] {
        world.give(resized(name, "500m", 1));
    }
    world.decide();
    world.give(resized("early", "900m", 2));
    world.decide();
    world.give(resized("late", "600m", 2));
    let mut urgent = resized("urgent", "800m", 2);
    urgent.spec.as_mut().unwrap().priority = Some(10);
    world.give(urgent);
    assert_eq!(told(&world.decide()), ["urgent ResizeDeferred", "late ResizeDeferred"]);
    // 400m are free, of which the pod of higher priority takes 300m; then 100m are enough for the last only.
    world.give(resized("smaller", "100m", 2));
    let decisions = world.decide();
    assert_eq!(told(&decisions), ["smaller ResizeStarted", "urgent ResizeStarted", "late ResizeStarted"]);
    assert_eq!(allocated(&decisions, "early").0, "500m");
}

#[test]
fn a_resize_counts_before_new_pods() {
    let mut world = World::new(9);
    world.give(resized("a", "1", 1));
    world.decide();
    world.give(resized("a", "1500m", 2));
    world.give(api("new", 2, "1"));
    let decisions = world.decide();
    assert_eq!((allocated(&decisions, "a").0, names(&decisions)), ("1500m".into(), vec!["a".to_owned()]));
}

#[test]
fn a_resize_that_changes_the_share_of_swap_is_never_done() {
    let mut world = World::new(9);
    world.admitter = Admitter::new(Vec::new(), ResizeLimits { has_swap: true, ..ResizeLimits::default() });
    let of = |name: &str, memory: &str, restarts: bool, generation: i64| {
        let mut pod = resized(name, "100m", generation);
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        let requests = json!({"requests": {"cpu": "100m", "memory": memory}});
        container.resources = serde_json::from_value(requests).unwrap();
        let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        container.resize_policy = restarts.then(|| serde_json::from_value(policy).unwrap());
        pod
    };
    world.give(of("keeps", "32Mi", false, 1));
    world.give(of("restarts", "32Mi", true, 1));
    world.give(resized("cpu", "100m", 1));
    world.decide();
    world.give(of("keeps", "64Mi", false, 2));
    world.give(of("restarts", "64Mi", true, 2));
    world.give(resized("cpu", "200m", 2));
    let decisions = world.decide();
    let mut told = told(&decisions);
    told.sort();
    assert_eq!(told, ["cpu ResizeStarted", "keeps ResizeInfeasible", "restarts ResizeStarted"]);
    let message = "In-place resize of containers with swap is not supported.";
    let infeasible = Some((PendingResizeReason::Infeasible, message.to_owned(), Some(2)));
    assert_eq!((allocated(&decisions, "keeps").1, decisions.is_waiting), (infeasible, false));
    assert!(decisions.resizes.iter().any(|(_, event)| event.message.starts_with("Pod resize Infeasible: {")));
}

#[test]
fn a_guaranteed_pod_with_cpus_of_its_own_is_never_resized_in_them() {
    let mut world = World::new(9);
    world.admitter = Admitter::new(Vec::new(), ResizeLimits { static_cpus: true, ..ResizeLimits::default() });
    let of = |cpu: &str, memory: &str, generation: i64| {
        let mut pod = resized("a", cpu, generation);
        let amounts = json!({"cpu": cpu, "memory": memory});
        let resources = json!({"requests": amounts, "limits": amounts});
        pod.spec.as_mut().unwrap().containers[0].resources = serde_json::from_value(resources).unwrap();
        pod
    };
    world.give(of("1", "32Mi", 1));
    world.decide();
    world.give(of("500m", "32Mi", 2));
    let decisions = world.decide();
    let message = "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"";
    let infeasible = Some((PendingResizeReason::Infeasible, message.to_owned(), Some(2)));
    assert_eq!(allocated(&decisions, "a"), ("1".to_owned(), infeasible));
    world.give(of("1", "64Mi", 3));
    assert_eq!(told(&world.decide()), ["a ResizeStarted"], "its memory is of no certain node");
}

#[test]
fn a_volume_in_memory_that_is_resized_is_reported_once() {
    let with_volume = |medium: &str, size: &str| {
        let mut pod = api("a", 1, "1");
        let volume = json!({"name": "v", "emptyDir": {"medium": medium, "sizeLimit": size}});
        pod.spec.as_mut().unwrap().volumes = Some(vec![serde_json::from_value(volume).unwrap()]);
        pod
    };
    let mut world = World::new(9);
    world.give(with_volume("Memory", "1Mi"));
    world.decide();
    world.give(with_volume("Memory", "1024Ki"));
    assert!(told(&world.decide()).is_empty());
    world.give(with_volume("Memory", "2Mi"));
    let decisions = world.decide();
    assert_eq!(told(&decisions), ["a FailedNodeDeclaredFeaturesCheck"]);
    let message =
        "Pod requires node features that are not available: InPlacePodVerticalScalingMemoryBackedVolumes";
    assert_eq!(decisions.resizes[0].1.message, message);
    assert_eq!(names(&decisions), ["a"]);
    assert!(told(&world.decide()).is_empty());
    // The size of a volume on disk is only a limit, which its eviction takes from the pod.
    world.give(with_volume("", "3Mi"));
    world.decide();
    world.give(with_volume("", "4Mi"));
    assert!(told(&world.decide()).is_empty());
}

#[test]
fn deferred_resizes_are_counted_by_what_ends_them() {
    let mut world = World::new(9);
    let metrics = Metrics::default();
    world.admitter.metrics.register(&metrics);
    for name in ["a", "b", "c"] {
        world.give(resized(name, "500m", 1));
    }
    world.decide();
    for name in ["a", "b", "c"] {
        world.give(resized(name, "1200m", 2));
    }
    world.decide();
    world.give(resized("a", "500m", 3));
    world.decide();
    world.api.pods.remove(&PodUid::from("b"));
    world.decide();
    let text = metrics.encode();
    assert!(
        text.contains("kubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pods_removed\"} 1\n"),
        "{text}"
    );
    for resolution in ["accepted", "reverted", "terminated"] {
        let labels = format!("{{resolution=\"{resolution}\",priority_bucket=\"normal\"}}");
        let line = format!("kubelet_pod_deferred_resize_duration_seconds_count{labels} 1\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// A pod that needs one of the devices of a plugin.
fn with_device(name: &str) -> Pod {
    let mut pod = api(name, 1, "0");
    let resources = json!({"limits": {"v.com/gpu": "1"}, "requests": {"v.com/gpu": "1"}});
    pod.spec.as_mut().unwrap().containers[0].resources = Some(serde_json::from_value(resources).unwrap());
    pod
}

fn granting(decisions: &Decisions) -> Vec<String> {
    decisions.granting.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

#[test]
fn a_new_pod_is_admitted_once_it_has_its_devices() {
    let mut world = World::new(5);
    world.exclusive.devices.insert("v.com/gpu".to_owned());
    world.give(with_device("waits"));
    world.give(with_device("lacks"));
    world.give(api("plain", 2, "0"));
    let first = world.decide();
    assert_eq!(names(&first), ["plain"], "nobody waits for the devices of others");
    assert_eq!(granting(&first), ["lacks", "waits"]);
    assert!(first.awaited_grants.is_empty());
    let rejection = Rejection::new("UnexpectedAdmissionError", "Allocate failed".to_owned());
    world.grants.insert("lacks".into(), GrantState::Rejected(rejection));
    world.grants.insert("waits".into(), GrantState::NotYet("v.com/gpu is away".to_owned()));
    let second = world.decide();
    assert_eq!(rejected(&second), [pair("lacks", "UnexpectedAdmissionError")]);
    assert_eq!(granting(&second), ["waits"]);
    assert_eq!(second.awaited_grants["waits"], "v.com/gpu is away");
    world.grants.insert("waits".into(), GrantState::Granted);
    let third = world.decide();
    assert_eq!(names(&third), ["plain", "waits"]);
    assert_eq!((granting(&third), rejected(&third)), (vec![], rejected(&second)));
}

#[test]
fn a_manifest_waits_until_somebody_offers_its_resources() {
    let mut world = World::new(5);
    let mut own = with_device("own");
    own.metadata.annotations = Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), "file".to_owned())].into());
    world.manifest(own);
    world.give(with_device("scheduled"));
    let first = world.decide();
    assert_eq!(names(&first), ["scheduled"], "the scheduler has counted what the node does not have");
    assert_eq!((granting(&first), rejected(&first)), (vec![], vec![]));
    let reason = "waits for v.com/gpu: no device plugin offers it, and the Node does not list it";
    assert_eq!(first.awaited_grants["own"], reason);
    world.exclusive.devices.insert("v.com/gpu".to_owned());
    let second = world.decide();
    assert_eq!((granting(&second), second.awaited_grants.len()), (vec!["own".to_owned()], 0));
}

#[test]
fn an_admitted_pod_needs_no_device_again() {
    let mut world = World::new(5);
    world.exclusive.devices.insert("v.com/gpu".to_owned());
    world.give(with_device("a"));
    world.grants.insert("a".into(), GrantState::Granted);
    assert_eq!(names(&world.decide()), ["a"]);
    world.grants.clear();
    world.restart();
    let decisions = world.decide();
    assert_eq!((names(&decisions), granting(&decisions)), (vec!["a".to_owned()], vec![]));
}

#[test]
fn a_pod_that_has_its_device_and_waits_for_others_keeps_it() {
    let mut world = World::new(1);
    world.exclusive.devices.insert("v.com/gpu".to_owned());
    world.give(api("small", 1, "0"));
    world.decide();
    let mut vital = with_device("vital");
    vital.spec.as_mut().unwrap().priority = Some(2_000_000_000);
    world.give(vital);
    world.grants.insert("vital".into(), GrantState::Granted);
    let decisions = world.decide();
    assert!(decisions.is_waiting, "for the preempted pod");
    assert_eq!(granting(&decisions), ["vital"]);
    world.terminate("small");
    let decisions = world.decide();
    assert_eq!((names(&decisions).pop(), granting(&decisions)), (Some("vital".to_owned()), vec![]));
}

//! Which parts of a status are written and which are preserved.

use hostlet_observe::status::LifecycleSummary;
use hostlet_pod::testing;
use k8s_openapi::api::core::v1::PodStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::merge::merged;
use super::plan::{Live, ReportedPod, Urgency, Write, plan};
use crate::api::fake::apply_strategic;

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

fn condition(kind: &str, value: &str, since: &str) -> Value {
    json!({"type": kind, "status": value, "lastTransitionTime": since})
}

fn live(status: &PodStatus) -> Live<'_> {
    Live { uid: "u", status, is_deleting: false, is_mirror: false, spec: None }
}

fn reported(status: &PodStatus) -> ReportedPod<'_> {
    ReportedPod { status, lifecycle: LifecycleSummary::Active, has_released: false }
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

#[test]
fn fields_of_other_writers_are_preserved() {
    let there =
        status(json!({"nominatedNodeName": "n", "conditions": [condition("example.com/gate", "True", EARLY),
        condition("Resized", "True", EARLY)]}));
    let ours = status(json!({"phase": "Running", "conditions": [condition("Ready", "True", LATE)]}));
    let merged = merged(&ours, LifecycleSummary::Active, &there, false);
    let types: Vec<_> = merged.conditions.iter().flatten().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "example.com/gate", "Resized"]);
    assert_eq!(merged.nominated_node_name.as_deref(), Some("n"));
}

#[test]
fn an_unchanged_condition_keeps_its_time_and_start_time_is_kept() {
    let there = status(json!({"startTime": EARLY, "conditions": [condition("Ready", "True", EARLY),
        condition("Initialized", "False", EARLY)]}));
    let ours = status(json!({"startTime": LATE, "conditions": [condition("Ready", "True", LATE),
        condition("Initialized", "True", LATE)]}));
    let merged = serde_json::to_value(merged(&ours, LifecycleSummary::Active, &there, false)).unwrap();
    assert_eq!(merged["startTime"], EARLY);
    assert_eq!(merged["conditions"][0]["lastTransitionTime"], EARLY);
    assert_eq!(merged["conditions"][1]["lastTransitionTime"], LATE);
}

#[test]
fn a_mirror_of_a_pod_that_runs_again_loses_the_end_that_was_reported() {
    let disruption = |reason: &str| json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
    let there = status(json!({"phase": "Failed", "reason": "Terminated", "message": "m", "startTime": EARLY,
        "conditions": [disruption("TerminationByKubelet"), condition("example.com/gate", "True", EARLY)]}));
    let ours = status(json!({"phase": "Running", "conditions": [condition("Ready", "True", LATE)]}));
    let mirror = merged(&ours, LifecycleSummary::Active, &there, true);
    assert_eq!((mirror.phase.as_deref(), &mirror.reason, &mirror.message), (Some("Running"), &None, &None));
    let types: Vec<_> = mirror.conditions.iter().flatten().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "example.com/gate"]);
    let own = merged(&ours, LifecycleSummary::Active, &there, false);
    assert_eq!((own.phase.as_deref(), own.reason.as_deref()), (Some("Failed"), Some("Terminated")));
    let ended = status(json!({"phase": "Failed"}));
    let again = merged(&ended, LifecycleSummary::Active, &there, true);
    assert_eq!(again.phase.as_deref(), Some("Failed"), "a daemon that sees a completed pod first");
}

#[test]
fn a_terminal_phase_waits_until_nothing_runs_for_certain() {
    let there = status(json!({"phase": "Running"}));
    let disruption = json!({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"});
    let ours = status(json!({"phase": "Failed", "reason": "Evicted", "message": "m",
        "conditions": [condition("Ready", "True", LATE), disruption]}));
    let early = merged(&ours, LifecycleSummary::Terminating, &there, false);
    assert_eq!((early.phase.as_deref(), &early.reason, &early.message), (Some("Running"), &None, &None));
    let types = |status: &PodStatus| -> Vec<String> {
        status.conditions.iter().flatten().map(|condition| condition.type_.clone()).collect()
    };
    assert_eq!(types(&early), ["Ready"]);
    let over = merged(&ours, LifecycleSummary::Terminated, &there, false);
    assert_eq!((over.phase.as_deref(), over.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    assert_eq!(types(&over), ["Ready", "DisruptionTarget"]);
    assert_eq!(
        types(&merged(&ours, LifecycleSummary::Terminated, &over, false)),
        ["Ready", "DisruptionTarget"]
    );
}

#[test]
fn a_stale_disruption_target_of_others_is_replaced_when_the_pod_ends() {
    let of =
        |value: &str, reason: &str| json!({"type": "DisruptionTarget", "status": value, "reason": reason});
    let there = status(json!({"phase": "Running", "conditions": [of("False", "EvictionByEvictionAPI")]}));
    let ours = status(json!({"phase": "Failed", "conditions": [of("True", "TerminationByKubelet")]}));
    let shown = |there: &PodStatus, lifecycle| {
        let merged = merged(&ours, lifecycle, there, false);
        let condition = merged.conditions.unwrap().remove(0);
        (condition.status, condition.reason.unwrap())
    };
    let stale = ("False".to_owned(), "EvictionByEvictionAPI".to_owned());
    assert_eq!(shown(&there, LifecycleSummary::Terminating), stale);
    let new = ("True".to_owned(), "TerminationByKubelet".to_owned());
    assert_eq!(shown(&there, LifecycleSummary::Terminated), new);
    let ended = status(json!({"phase": "Failed", "conditions": [of("False", "EvictionByEvictionAPI")]}));
    assert_eq!(shown(&ended, LifecycleSummary::Terminated), stale, "it was reset since");
}

#[test]
fn a_terminal_phase_is_final() {
    let there = status(json!({"phase": "Failed", "reason": "Evicted"}));
    let ours = status(json!({"phase": "Running"}));
    let merged = merged(&ours, LifecycleSummary::Active, &there, false);
    assert_eq!((merged.phase.as_deref(), merged.reason.as_deref()), (Some("Failed"), Some("Evicted")));
}

#[test]
fn an_unchanged_status_is_not_written_again() {
    let same = status(
        json!({"phase": "Running", "startTime": EARLY, "conditions": [condition("Ready", "True", EARLY)]}),
    );
    assert_eq!(plan(reported(&same), live(&same)), Write::Nothing);
}

#[test]
fn readiness_phase_and_resizes_are_urgent_and_the_rest_is_not() {
    let urgency = |there: Value, ours: Value| match plan(reported(&status(ours)), live(&status(there))) {
        Write::Patch(_, urgency) => urgency,
        other => panic!("{other:?}"),
    };
    let pending = json!({"phase": "Pending"});
    assert_eq!(urgency(pending.clone(), json!({"phase": "Running"})), Urgency::Now);
    let ready = json!({"phase": "Pending", "conditions": [condition("Ready", "True", EARLY)]});
    assert_eq!(urgency(pending.clone(), ready), Urgency::Now);
    let not_ready = json!({"phase": "Pending", "conditions": [condition("Ready", "False", EARLY)]});
    assert_eq!(urgency(pending.clone(), not_ready), Urgency::Soon);
    let sized = |cpu: &str| json!({"phase": "Pending", "allocatedResources": {"cpu": cpu}});
    assert_eq!(urgency(pending.clone(), sized("1")), Urgency::Soon);
    assert_eq!(urgency(sized("1"), sized("2")), Urgency::Now);
    let deferred = json!({"phase": "Pending", "conditions": [condition("PodResizePending", "True", EARLY)]});
    assert_eq!(urgency(pending.clone(), deferred), Urgency::Now);
    let gated = json!({"phase": "Pending", "conditions": [condition("ContainersReady", "True", EARLY)]});
    assert_eq!(
        urgency(pending.clone(), gated),
        Urgency::Now,
        "the controller of a readiness gate waits for it"
    );
    assert_eq!(urgency(pending, json!({"phase": "Pending", "podIP": "10.0.0.1"})), Urgency::Soon);
}

#[test]
fn the_first_status_is_written_before_a_pod_waits() {
    let urgency = |there: &Value, message: &str, reason: &str| {
        let condition = json!({"type": "PodReadyToStartContainers", "status": "False", "message": message});
        let waits = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason}}});
        let ours = status(json!({"phase": "Pending", "startTime": EARLY, "conditions": [condition],
            "containerStatuses": [waits]}));
        match plan(reported(&ours), live(&status(there.clone()))) {
            Write::Patch(_, urgency) => urgency,
            other => panic!("{other:?}"),
        }
    };
    let (none, some) = (json!({"phase": "Pending"}), json!({"phase": "Pending", "startTime": EARLY}));
    let of_volume = "no pod sandbox exists: MountVolume.SetUp failed for volume \"v\"";
    assert_eq!(urgency(&none, "no pod sandbox exists", "ContainerCreating"), Urgency::First);
    assert_eq!(urgency(&none, of_volume, "ContainerCreating"), Urgency::Now);
    assert_eq!(urgency(&none, "no pod sandbox exists", "ErrImagePull"), Urgency::Now);
    assert_eq!(urgency(&some, of_volume, "ErrImagePull"), Urgency::Soon);
}

#[test]
fn an_object_is_deleted_only_if_terminating_and_its_final_status_is_published() {
    let ended = status(json!({"phase": "Succeeded"}));
    let over = |status| ReportedPod { status, lifecycle: LifecycleSummary::Terminated, has_released: true };
    let going = |status| Live { is_deleting: true, ..live(status) };
    assert_eq!(plan(over(&ended), going(&ended)), Write::Delete);
    assert_eq!(plan(over(&ended), live(&ended)), Write::Nothing);
    assert_eq!(plan(ReportedPod { has_released: false, ..over(&ended) }, going(&ended)), Write::Nothing);
    assert_eq!(plan(over(&ended), Live { is_mirror: true, ..going(&ended) }), Write::Nothing);
    let running = status(json!({"phase": "Running"}));
    assert!(
        matches!(plan(over(&ended), going(&running)), Write::Patch(_, Urgency::Now)),
        "its end is shown first"
    );
}

#[test]
fn a_container_that_terminated_for_good_is_not_reported_as_running() {
    let state = |state: Value| {
        json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state}]})
    };
    let ended = |code| status(state(json!({"terminated": {"exitCode": code}})));
    let alive = status(state(json!({"waiting": {"reason": "ContainerCreating"}})));
    let of = |there: &PodStatus, policy: &str| {
        let pod = testing::pod("p", "u", policy, &["c"]);
        plan(reported(&alive), Live { spec: pod.spec.as_ref(), ..live(there) })
    };
    assert_eq!(of(&ended(1), "Never"), Write::Impossible("c".to_owned()));
    assert_eq!(of(&ended(0), "OnFailure"), Write::Impossible("c".to_owned()));
    assert!(matches!(of(&ended(1), "OnFailure"), Write::Patch(..)));
    assert!(matches!(of(&ended(1), "Always"), Write::Patch(..)));
    // Its own policy and rules win.
    let mut pod = testing::pod("p", "u", "Never", &["c"]);
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.restart_policy = Some("Never".to_owned());
    container.restart_policy_rules = serde_json::from_value(rule).unwrap();
    let of = |code| plan(reported(&alive), Live { spec: pod.spec.as_ref(), ..live(&ended(code)) });
    assert!(matches!(of(42), Write::Patch(..)));
    assert_eq!(of(1), Write::Impossible("c".to_owned()));
}

#[test]
fn a_container_that_was_started_again_on_request_is_reported() {
    let state = |state: Value, last: Value| {
        status(
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state, "lastState": last}]}),
        )
    };
    let ended = |id: &str| json!({"terminated": {"exitCode": 0, "containerID": id}});
    let there = state(ended("x://1"), json!({}));
    let pod = testing::pod("p", "u", "Never", &["c"]);
    let of = |now: Value, last: Value| {
        plan(reported(&state(now, last)), Live { spec: pod.spec.as_ref(), ..live(&there) })
    };
    let (waiting, running) = (json!({"waiting": {"reason": "ContainerCreating"}}), json!({"running": {}}));
    for now in [waiting, running] {
        assert!(matches!(of(now.clone(), ended("x://1")), Write::Patch(..)), "{now}");
        assert_eq!(of(now.clone(), ended("x://0")), Write::Impossible("c".to_owned()), "{now}");
        assert_eq!(of(now, json!({})), Write::Impossible("c".to_owned()));
    }
}

#[test]
fn a_mirror_of_a_completed_pod_that_runs_again_is_written() {
    let of = |phase: &str, state: Value| {
        status(
            json!({"phase": phase, "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state}]}),
        )
    };
    let there = of("Failed", json!({"terminated": {"exitCode": 143}}));
    let ours = of("Running", json!({"running": {}}));
    let pod = testing::pod("p", "u", "Never", &["c"]);
    let planned = |is_mirror, lifecycle| {
        let live = Live { spec: pod.spec.as_ref(), is_mirror, ..live(&there) };
        plan(ReportedPod { lifecycle, ..reported(&ours) }, live)
    };
    assert!(matches!(planned(true, LifecycleSummary::Active), Write::Patch(..)));
    assert_eq!(planned(false, LifecycleSummary::Active), Write::Impossible("c".to_owned()));
}

prop_compose! {
    fn any_status()(
        phase in prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed"]),
        conditions in prop::sample::subsequence(vec!["Ready", "Initialized", "PodScheduled", "example.com/x", "y"], 0..=5),
        values in prop::collection::vec(prop::sample::select(vec!["True", "False"]), 5),
        time in prop::sample::select(vec![EARLY, LATE]),
        ip in prop::option::of("10\\.0\\.0\\.[1-3]"),
    ) -> PodStatus {
        let conditions: Vec<Value> =
            conditions.iter().zip(&values).map(|(kind, value)| condition(kind, value, time)).collect();
        let mut all = json!({"phase": phase, "startTime": time});
        if !conditions.is_empty() {
            all["conditions"] = conditions.into();
        }
        if let Some(ip) = ip {
            all["podIPs"] = json!([{"ip": ip}]);
            all["podIP"] = ip.into();
        }
        status(all)
    }
}

proptest! {
    /// From any live status, one patch reaches the reported one, and a second plan is empty.
    #[test]
    fn one_patch_is_enough(ours in any_status(), there in any_status()) {
        let over = ReportedPod { status: &ours, lifecycle: LifecycleSummary::Terminated, has_released: false };
        if let Write::Patch(change, _) = plan(over, live(&there)) {
            let mut object = json!({"status": there});
            apply_strategic("Pod", &mut object, &change).unwrap();
            let after: PodStatus = serde_json::from_value(object["status"].take()).unwrap();
            prop_assert_eq!(plan(over, live(&after)), Write::Nothing);
        }
    }
}

//! Tests of the phase.

use std::collections::BTreeSet;

use hostlet_pod::{AdmittedPod, testing};
use k8s_openapi::api::core::v1::{
    ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, Pod,
};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Is {
    Absent,
    Stateless,
    Waiting,
    Starting,
    Running,
    Ended(i32),
    Again(i32),
}

fn status(name: &str, is: Is) -> Option<ContainerStatus> {
    let ended = |exit_code| ContainerState {
        terminated: Some(ContainerStateTerminated { exit_code, ..Default::default() }),
        ..Default::default()
    };
    let waiting = ContainerState { waiting: Some(ContainerStateWaiting::default()), ..Default::default() };
    let running = ContainerState { running: Some(ContainerStateRunning::default()), ..Default::default() };
    let (state, last_state, started) = match is {
        Is::Absent => return None,
        Is::Stateless => (None, None, false),
        Is::Waiting => (Some(waiting), None, false),
        Is::Starting => (Some(running), None, false),
        Is::Running => (Some(running), None, true),
        Is::Ended(code) => (Some(ended(code)), None, false),
        Is::Again(code) => (Some(waiting), Some(ended(code)), false),
    };
    Some(ContainerStatus {
        name: name.into(),
        state,
        last_state,
        started: Some(started),
        ..Default::default()
    })
}

/// A pod that is not static, with a main container for each given state, and with an init container and a sidecar if they
/// have a state.
fn phase_of(
    policy: &str,
    init: Option<Is>,
    sidecar: Option<Is>,
    regular: &[Is],
    lifecycle: LifecycleSummary,
) -> PodPhase {
    let names: Vec<String> = (0..regular.len()).map(|n| format!("c{n}")).collect();
    let mut pod: Pod = testing::pod("p", "u", policy, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut statuses: Vec<_> = names.iter().zip(regular).filter_map(|(name, is)| status(name, *is)).collect();
    let mut inits = Vec::new();
    if let Some(is) = init {
        inits.push(Container { name: "init".into(), ..Default::default() });
        statuses.extend(status("init", is));
    }
    if let Some(is) = sidecar {
        inits.push(Container {
            name: "side".into(),
            restart_policy: Some("Always".into()),
            ..Default::default()
        });
        statuses.extend(status("side", is));
    }
    pod.spec.as_mut().unwrap().init_containers = Some(inits);
    let initialized = regular.iter().any(|is| !matches!(is, Is::Absent | Is::Stateless | Is::Waiting));
    // Of the API server.
    pod.metadata.annotations = None;
    let restarts = Restarts { pod: &AdmittedPod::new(pod), starting: &BTreeSet::new() };
    phase(restarts, &statuses, lifecycle, initialized)
}

#[test]
fn regular_containers() {
    use Is::{Absent, Again, Ended, Running, Waiting};
    use hostlet_pod::PodPhase::{Failed, Pending, Succeeded};
    for (policy, regular, expected) in [
        ("Always", vec![Waiting], Pending),
        ("Always", vec![Absent], Pending),
        ("Always", vec![Running, Waiting], Pending),
        ("Always", vec![Running, Absent], Pending),
        ("Always", vec![Running, Running], PodPhase::Running),
        ("Always", vec![Running, Ended(1)], PodPhase::Running),
        ("Always", vec![Ended(0)], PodPhase::Running),
        ("Always", vec![Again(1)], PodPhase::Running),
        ("OnFailure", vec![Ended(0), Ended(0)], Succeeded),
        ("OnFailure", vec![Ended(0), Ended(1)], PodPhase::Running),
        ("OnFailure", vec![Again(1)], PodPhase::Running),
        ("Never", vec![Ended(0), Ended(0)], Succeeded),
        ("Never", vec![Ended(0), Ended(1)], Failed),
        ("Never", vec![Running, Ended(1)], PodPhase::Running),
        ("Never", vec![Ended(0), Waiting], Pending),
    ] {
        assert_eq!(
            phase_of(policy, None, None, &regular, LifecycleSummary::Active),
            expected,
            "{policy} {regular:?}"
        );
    }
}

#[test]
fn init_containers_and_sidecars() {
    use Is::{Ended, Running, Starting, Waiting};
    let active = |policy, init, sidecar, regular| {
        phase_of(policy, init, sidecar, &[regular], LifecycleSummary::Active)
    };
    assert_eq!(active("Always", Some(Running), None, Waiting), PodPhase::Pending);
    assert_eq!(active("Always", Some(Ended(1)), None, Waiting), PodPhase::Pending);
    assert_eq!(active("Never", Some(Ended(1)), None, Waiting), PodPhase::Failed);
    assert_eq!(active("Never", Some(Is::Again(1)), None, Waiting), PodPhase::Failed);
    assert_eq!(active("Never", Some(Ended(0)), None, Running), PodPhase::Running);
    assert_eq!(active("Always", None, Some(Starting), Waiting), PodPhase::Pending);
    assert_eq!(active("Always", None, Some(Starting), Running), PodPhase::Running);
    assert_eq!(active("Never", None, Some(Ended(1)), Ended(0)), PodPhase::Succeeded);
    assert_eq!(active("Never", None, Some(Running), Ended(0)), PodPhase::Running);
}

#[test]
fn a_terminated_pod_is_over_whatever_its_policy() {
    let over = |regular: &[Is]| phase_of("Always", None, None, regular, LifecycleSummary::Terminated);
    assert_eq!(over(&[Is::Ended(0), Is::Ended(0)]), PodPhase::Succeeded);
    assert_eq!(over(&[Is::Ended(0), Is::Ended(1)]), PodPhase::Failed);
}

fn any_state() -> impl Strategy<Value = Is> {
    prop_oneof![
        Just(Is::Absent),
        Just(Is::Stateless),
        Just(Is::Waiting),
        Just(Is::Starting),
        Just(Is::Running),
        (0..3).prop_map(Is::Ended),
        (0..3).prop_map(Is::Again)
    ]
}

proptest! {
    /// Every combination of states has a phase, which claims no more than the states show.
    #[test]
    fn the_phase_is_total_and_true(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        init in prop::option::of(any_state()),
        sidecar in prop::option::of(any_state()),
        regular in prop::collection::vec(any_state(), 0..4),
    ) {
        let all_ended = regular.iter().all(|is| matches!(is, Is::Ended(_) | Is::Again(_)));
        match phase_of(policy, init, sidecar, &regular, LifecycleSummary::Active) {
            PodPhase::Succeeded => prop_assert!(policy != "Always" && regular.iter().all(|is| matches!(is, Is::Ended(0)))),
            PodPhase::Failed => prop_assert!(policy != "Always" && (all_ended || matches!(init, Some(Is::Ended(1..) | Is::Again(1..))))),
            PodPhase::Running => prop_assert!(!regular.iter().any(|is| matches!(is, Is::Waiting | Is::Absent | Is::Stateless))),
            PodPhase::Pending => prop_assert!(!regular.iter().all(|is| matches!(is, Is::Running)) || regular.is_empty() || init.is_some() || sidecar.is_some()),
        }
    }
}

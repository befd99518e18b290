//! The schedule against its rules, in examples and in random histories.

use std::collections::HashMap;

use hostlet_base::testing::at;
use hostlet_pod::{ContainerKind, testing};
use k8s_openapi::api::core::v1::Probe;
use proptest::prelude::*;

use super::*;

const BEGAN: i64 = 1000;
const UPTIME: Duration = Duration::from_secs(500);

fn probe(delay: i32, period: i32, failures: i32) -> Option<Probe> {
    Some(Probe {
        initial_delay_seconds: Some(delay),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        ..Probe::default()
    })
}

/// A pod with containers `a` and `b`.
fn pod(edit: impl Fn(&mut Container)) -> Arc<AdmittedPod> {
    let mut pod = testing::pod("p", "u", "Always", &["a", "b"]);
    pod.spec.as_mut().unwrap().containers.iter_mut().for_each(edit);
    AdmittedPod::new(pod)
}

fn seen(pod: &Arc<AdmittedPod>, is_ending: bool, instances: &[(&str, u32, Option<i64>)]) -> SeenPod {
    let instance = |(name, attempt, since): &(&str, u32, Option<i64>)| SeenInstance {
        container: ContainerRef { kind: ContainerKind::Main, name: (*name).to_owned() },
        id: ContainerId::from(format!("{name}-{attempt}")),
        running_since: since.map(at),
        started: false,
        ready: false,
    };
    let instances = instances.iter().map(instance).collect();
    SeenPod { pod: pod.clone(), ip: "10.0.0.1".to_owned(), is_ending, instances }
}

struct Bench {
    schedule: Schedule,
    start: Instant,
    /// Seconds since the daemon began.
    time: f64,
    /// Seconds by which the wall clock was set.
    set_by: i64,
}

impl Bench {
    fn new() -> Self {
        Self::with_limit(100)
    }

    fn with_limit(limit: usize) -> Self {
        let start = Instant::now();
        let schedule = Schedule::new(limit, start);
        Self { schedule, start, time: 0.0, set_by: 0 }
    }

    fn now(&self) -> Now {
        let since = Duration::from_secs_f64(self.time);
        let wall = at(BEGAN + self.set_by) + jiff::SignedDuration::try_from(since).unwrap();
        Now { instant: self.start + since, wall, uptime: UPTIME + since }
    }

    fn see(&mut self, seen: SeenPod) {
        let now = self.now();
        self.schedule.see(seen, &PodProbes::default(), now, || 0.5);
    }

    /// What runs now.
    fn due(&mut self) -> Vec<Run> {
        let now = self.now().instant;
        std::iter::from_fn(|| self.schedule.take_due(now)).collect()
    }

    /// When the next run is due, in seconds since the daemon began.
    fn next(&mut self) -> Option<f64> {
        let due = self.schedule.next_due()?;
        Some(due.duration_since(self.start).as_secs_f64())
    }

    /// Runs what is due at the next due time with this result, and returns the time and the kinds.
    fn step(&mut self, success: bool) -> (f64, Vec<ProbeKind>) {
        self.time = self.next().unwrap().max(self.time);
        let runs = self.due();
        let verdict = if success { Verdict::Success } else { Verdict::Failure };
        for run in &runs {
            let now = self.now();
            self.schedule.finished(run.key, Some(verdict), now);
        }
        (self.time, runs.iter().map(|run| run.kind).collect())
    }

    fn found(&self, id: &str) -> ContainerProbes {
        self.schedule.found(&"u".into()).0.get(&ContainerId::from(id)).copied().unwrap_or_default()
    }
}

use ProbeKind::{Liveness, Readiness, Startup};

#[test]
fn periodic_runs_of_different_pods_are_due_together() {
    let pod = pod(|container| container.readiness_probe = probe(0, 1, 3));
    let mut bench = Bench::new();
    // Two that were first probed at other times, each at once.
    bench.time = 10.003;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 10))]));
    assert_eq!(bench.step(true), (10.003, vec![Readiness]));
    bench.time = 10.021;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 10)), ("b", 0, Some(BEGAN + 10))]));
    assert_eq!(bench.step(true), (10.021, vec![Readiness]));
    // From then on one wake-up is for both, and they stay there.
    assert_eq!(bench.step(true), (11.025, vec![Readiness, Readiness]));
    assert_eq!(bench.step(true), (12.025, vec![Readiness, Readiness]));
}

#[test]
fn a_probe_runs_after_its_delay_and_then_each_period() {
    let pod = pod(|container| container.readiness_probe = probe(5, 10, 3));
    let mut bench = Bench::new();
    bench.time = 100.0;
    bench.see(seen(&pod, false, &[("a", 0, None)]));
    assert_eq!(bench.next(), None, "it does not run yet");
    bench.time = 102.0;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 100))]));
    let times: Vec<f64> = (0..3).map(|_| bench.step(true).0).collect();
    assert_eq!(times, [105.0, 115.0, 125.0]);
    assert!(bench.found("a-0").ready);
    // One that was seen late is probed at once.
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 100)), ("b", 0, Some(BEGAN + 100))]));
    assert_eq!(bench.next(), Some(125.0));
}

#[test]
fn a_clock_that_is_set_shortens_no_delay_and_makes_no_instance_an_adopted_one() {
    let pod = pod(|container| container.liveness_probe = probe(60, 10, 3));
    const TEN_YEARS: i64 = 10 * 365 * 86_400;
    for step in [-TEN_YEARS, TEN_YEARS] {
        let mut bench = Bench::new();
        bench.time = 100.0;
        bench.see(seen(&pod, false, &[("a", 0, None)]));
        bench.time = 101.0;
        bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 101))]));
        bench.time = 110.0;
        bench.set_by = step;
        bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 101)), ("b", 0, None)]));
        assert_eq!(bench.next(), Some(161.0));
        // The clock was set again between its start and this look.
        bench.time = 112.0;
        bench.set_by = 0;
        bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 101)), ("b", 0, Some(BEGAN + step + 111))]));
        assert_eq!(bench.step(true).0, 161.0);
        let next = bench.step(true).0;
        assert!((170.0..=172.0).contains(&next), "{next}");
    }
}

#[test]
fn the_readiness_of_a_new_instance_is_asked_for_again_soon() {
    let pod = pod(|container| {
        container.liveness_probe = probe(0, 30, 9);
        container.readiness_probe = probe(0, 5, 3);
    });
    let mut bench = Bench::new();
    bench.time = 50.0;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 50))]));
    assert_eq!(bench.step(false), (50.0, vec![Liveness, Readiness]));
    let again: Vec<f64> = (0..6).map(|_| bench.step(false).0).collect();
    assert_eq!(again, [50.25, 50.75, 51.75, 53.75, 57.75, 62.75], "then once per period");
    assert_eq!((bench.step(true).0, bench.step(false).0, bench.step(false).0), (67.75, 72.75, 77.75));

    bench.see(seen(&pod, false, &[("a", 1, Some(BEGAN + 77))]));
    assert_eq!(bench.due().iter().map(|run| run.is_early).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn other_probes_begin_when_the_startup_probe_succeeds() {
    let pod = pod(|container| {
        container.startup_probe = probe(0, 3, 2);
        container.liveness_probe = probe(0, 10, 1);
        container.readiness_probe = probe(0, 10, 1);
    });
    let mut bench = Bench::new();
    bench.time = 50.0;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 50))]));
    assert_eq!(bench.step(false), (50.0, vec![Startup]));
    assert_eq!(bench.step(true), (53.0, vec![Startup]));
    assert!(bench.found("a-0").started);
    assert_eq!(bench.step(true), (53.0, vec![Liveness, Readiness]));
    assert_eq!(bench.step(false), (63.0, vec![Liveness, Readiness]));
    let failed = ContainerProbes { started: true, ready: false, failed: Some(Liveness) };
    assert_eq!(bench.found("a-0"), failed);
    // The failed one waits for the next instance, readiness goes on.
    assert_eq!(bench.step(true), (73.0, vec![Readiness]));
    bench.see(seen(&pod, false, &[("a", 0, None)]));
    assert_eq!((bench.next(), bench.found("a-0").failed), (None, Some(Liveness)));
    bench.see(seen(&pod, false, &[("a", 1, Some(BEGAN + 73))]));
    assert_eq!(bench.found("a-1"), ContainerProbes::default());
    assert_eq!((bench.step(false), bench.step(false)), ((73.0, vec![Startup]), (76.0, vec![Startup])));
    assert_eq!((bench.found("a-1").failed, bench.next()), (Some(Startup), None));
}

#[test]
fn an_ending_pod_is_only_asked_whether_it_is_ready() {
    let pod = pod(|container| {
        container.liveness_probe = probe(0, 10, 1);
        container.readiness_probe = probe(0, 10, 1);
    });
    let mut bench = Bench::new();
    let running = [("a", 0, Some(BEGAN + 1))];
    bench.time = 1.0;
    bench.see(seen(&pod, false, &running));
    let runs = bench.due();
    assert_eq!(runs.len(), 2);
    bench.see(seen(&pod, true, &running));
    let finished = |bench: &mut Bench, kind| {
        let run = runs.iter().find(|run| run.kind == kind).unwrap();
        let now = bench.now();
        bench.schedule.finished(run.key, Some(Verdict::Failure), now)
    };
    assert_eq!(finished(&mut bench, Liveness), Finish::Moot);
    let counted = Finish::Counted { begins_to_fail: true, result: Some(Verdict::Failure) };
    assert_eq!(finished(&mut bench, Readiness), counted);
    assert_eq!(bench.found("a-0").failed, None);
    assert_eq!(bench.step(true), (11.0, vec![Readiness]));
}

#[test]
fn an_adopted_instance_keeps_its_findings_and_is_probed_soon() {
    let pod = pod(|container| {
        container.startup_probe = probe(0, 10, 1);
        container.liveness_probe = probe(0, 10, 3);
        container.readiness_probe = probe(0, 10, 3);
    });
    let mut bench = Bench::new();
    let ready = ContainerProbes { started: true, ready: true, failed: None };
    let failed = ContainerProbes { failed: Some(Liveness), ..ready };
    let known = PodProbes([("a-3".into(), ready), ("b-0".into(), failed)].into());
    let now = bench.now();
    let of_both = seen(&pod, false, &[("a", 3, Some(BEGAN - 500)), ("b", 0, Some(BEGAN - 500))]);
    bench.schedule.see(of_both, &known, now, || 0.5);
    assert_eq!(bench.schedule.found(&"u".into()), known);
    let (time, kinds) = bench.step(false);
    assert!(time > 0.0 && time <= 2.0, "{time}");
    // The probe that failed is not asked again.
    assert_eq!(kinds, [Liveness, Readiness, Readiness]);
    assert!(bench.found("a-3").ready, "one failure is not enough");
    // The first period is cut, so that probes of a whole node do not stay together.
    let (next, _) = bench.step(true);
    assert!(next - time >= 5.0 && next - time < 10.0, "{next}");
    assert!((bench.step(true).0 - next - 10.0).abs() < 1e-6);
    // Without findings the status that it had counts.
    let mut bench = Bench::new();
    let mut shown = seen(&pod, false, &[("a", 3, Some(BEGAN - 500)), ("b", 0, Some(BEGAN + 5))]);
    shown.instances.iter_mut().for_each(|instance| (instance.started, instance.ready) = (true, true));
    bench.see(shown);
    assert_eq!((bench.found("a-3"), bench.found("b-0")), (ready, ContainerProbes::default()));
}

#[test]
fn a_running_instance_has_the_probes_of_its_edited_definition() {
    let mut bench = Bench::new();
    let instances = [("a", 0, Some(BEGAN))];
    let before = pod(|container| container.liveness_probe = probe(0, 10, 3));
    bench.see(seen(&before, false, &instances));
    assert_eq!(bench.step(true), (0.0, vec![Liveness]));
    let after = pod(|container| container.readiness_probe = probe(0, 10, 3));
    bench.time = 5.0;
    bench.see(seen(&after, false, &instances));
    assert_eq!(bench.step(true), (5.0, vec![Readiness]));
    assert!(bench.found("a-0").ready);
    assert_eq!(bench.step(true), (15.0, vec![Readiness]), "the other one is gone");
}

#[test]
fn a_run_longer_than_its_period_is_followed_at_once_and_delays_no_other() {
    let pod = pod(|container| container.readiness_probe = probe(0, 2, 1));
    let mut bench = Bench::new();
    bench.time = 10.0;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 10)), ("b", 0, Some(BEGAN + 10))]));
    let slow = bench.due().into_iter().find(|run| run.container.name == "a").unwrap();
    let now = bench.now();
    let quick = ProbeKey(slow.key.0 + 1);
    bench.schedule.finished(quick, Some(Verdict::Success), now);
    assert_eq!([bench.step(true).0, bench.step(true).0], [12.0, 14.0]);
    bench.time = 15.0;
    let now = bench.now();
    // It could not be run: nothing counts.
    let nothing = Finish::Counted { begins_to_fail: false, result: None };
    assert_eq!(bench.schedule.finished(slow.key, None, now), nothing);
    assert_eq!(bench.next(), Some(15.0));
}

#[test]
fn no_more_run_than_may() {
    let pod = pod(|container| container.readiness_probe = probe(0, 2, 1));
    let mut bench = Bench::with_limit(1);
    bench.time = 10.0;
    bench.see(seen(&pod, false, &[("a", 0, Some(BEGAN + 10)), ("b", 0, Some(BEGAN + 10))]));
    let first = bench.due();
    assert_eq!((first.len(), bench.next()), (1, None));
    let now = bench.now();
    bench.schedule.finished(first[0].key, Some(Verdict::Success), now);
    let second = bench.due();
    assert_ne!((second.len(), second[0].key), (2, first[0].key));
    // The container of one that runs is gone: its run still counts until it ends.
    bench.see(seen(&pod, false, &[("a", 1, Some(BEGAN + 10))]));
    assert_eq!(bench.next(), None);
    let now = bench.now();
    assert_eq!(bench.schedule.finished(second[0].key, Some(Verdict::Success), now), Finish::Moot);
    assert!(bench.next().is_some());
    bench.schedule.forget(&"u".into());
    assert_eq!(bench.next(), None);
    assert!(bench.schedule.owners.is_empty());
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Change {
    Wait(u8),
    /// Ends the run at this place among those under way.
    End(u8, Option<bool>),
    Replace(bool),
    Stop(bool),
    Start(bool),
    Terminate,
    Forget,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0u8..30).prop_map(Change::Wait),
        8 => (any::<u8>(), proptest::option::weighted(0.9, any::<bool>())).prop_map(|(i, v)| Change::End(i, v)),
        1 => any::<bool>().prop_map(Change::Replace),
        1 => any::<bool>().prop_map(Change::Stop),
        2 => any::<bool>().prop_map(Change::Start),
        1 => Just(Change::Terminate),
        1 => Just(Change::Forget),
    ]
}

proptest! {
    /// In any history: a probe never runs twice at once, before its delay, before the startup probe succeeded, after its final result or for an
    /// instance that is not there; liveness and startup never in a pod that ends; what may run and is due does run; and nothing leaks.
    #[test]
    fn the_rules_hold_in_any_history(
        changes in proptest::collection::vec(change(), 1..80),
        has in proptest::collection::vec(any::<bool>(), 3),
        delay in 0i32..12,
        period in 1i32..9,
        failures in 1i32..4,
    ) {
        let pod = pod(|container| {
            container.startup_probe = probe(delay, period, failures).filter(|_| has[0]);
            container.liveness_probe = probe(delay, period, failures).filter(|_| has[1]);
            container.readiness_probe = probe(delay, period, failures).filter(|_| has[2]);
        });
        let mut bench = Bench::new();
        bench.time = 100.0;
        let mut containers: HashMap<&str, (u32, Option<i64>)> = [("a", (0, None)), ("b", (0, None))].into();
        let (mut is_ending, mut is_known) = (false, true);
        let mut running: Vec<Run> = Vec::new();
        for change in changes {
            let name = |b: bool| if b { "a" } else { "b" };
            let second = BEGAN + bench.time as i64;
            match change {
                Change::Wait(tenths) => bench.time += f64::from(tenths) / 10.0,
                Change::End(index, verdict) => if !running.is_empty() {
                    let run = running.swap_remove(usize::from(index) % running.len());
                    let before = bench.found(run.id.as_str());
                    let verdict = verdict.map(|success| if success { Verdict::Success } else { Verdict::Failure });
                    let now = bench.now();
                    let finish = bench.schedule.finished(run.key, verdict, now);
                    let after = bench.found(run.id.as_str());
                    let has_news = matches!(finish, Finish::Counted { result: Some(_), .. });
                    // A first success of a liveness probe, or a first failure of a readiness probe, changes no finding.
                    prop_assert!(has_news || before == after, "{finish:?}: {before:?}, {after:?}");
                }
                Change::Replace(which) => {
                    let entry = containers.get_mut(name(which)).unwrap();
                    *entry = (entry.0 + 1, Some(second));
                }
                Change::Stop(which) => containers.get_mut(name(which)).unwrap().1 = None,
                Change::Start(which) => {
                    let entry = containers.get_mut(name(which)).unwrap();
                    if entry.1.is_none() {
                        *entry = (entry.0 + 1, Some(second));
                    }
                }
                Change::Terminate => is_ending = true,
                Change::Forget => {
                    bench.schedule.forget(&"u".into());
                    is_known = !is_known;
                }
            }
            if is_known {
                let of_pod: Vec<_> = containers.iter().map(|(name, (attempt, since))| (*name, *attempt, *since)).collect();
                bench.see(seen(&pod, is_ending, &of_pod));
            }
            let now = bench.now();
            let due = bench.due();
            for run in &due {
                prop_assert!(is_known);
                let (attempt, since) = containers[run.container.name.as_str()];
                prop_assert_eq!(run.id.as_str(), format!("{}-{attempt}", run.container.name));
                let since = at(since.expect("only a running instance is probed"));
                prop_assert!(now.wall.duration_since(since).as_secs() >= i64::from(delay));
                prop_assert!(!running.iter().any(|other| other.key == run.key));
                let found = bench.found(run.id.as_str());
                prop_assert!(run.kind == Readiness || !is_ending);
                prop_assert!(found.failed != Some(run.kind));
                prop_assert_eq!(run.kind == Startup, has[0] && !found.started);
            }
            running.extend(due);
            prop_assert_eq!(bench.schedule.running, running.len());
            prop_assert!(bench.next().is_none_or(|next| next > bench.time));
        }
        // Whatever happened, a probe that may run does so within a period of the end of its last run.
        if is_known && !is_ending {
            for run in running.drain(..) {
                let now = bench.now();
                bench.schedule.finished(run.key, None, now);
            }
            bench.time += f64::from(delay + period);
            let ids: Vec<ContainerId> = bench.due().into_iter().map(|run| run.id).collect();
            for (name, (attempt, since)) in &containers {
                let id = format!("{name}-{attempt}");
                let found = bench.found(&id);
                let waits_for_startup = has[0] && !found.started;
                let may = match (waits_for_startup, found.failed) {
                    (_, Some(Startup)) => false,
                    (true, _) => true,
                    (false, Some(Liveness)) => has[2],
                    (false, _) => has[1] || has[2],
                };
                let expected = since.is_some() && may;
                prop_assert_eq!(ids.contains(&ContainerId::from(id)), expected);
            }
        }
        bench.schedule.forget(&"u".into());
        prop_assert!(bench.schedule.owners.is_empty() && bench.schedule.pods.is_empty());
    }
}

//! Termination of any pod at any moment: init containers, sidecars, hooks, failed probes and slow stops, with any grace period, and
//! with a daemon that is killed meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::ContainerId;
use hostlet_pod::{AdmittedPod, ContainerKind, ContainerProbes, PodProbes, ProbeKind};
use hostlet_runtime::cri::fake::{Exec, Happened, OnTerm, Script, What};
use hostlet_runtime::cri::{ExecOutput, Operation};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::testing::{Node, pod_with};

const SECOND: Duration = Duration::from_secs(1);

/// A preStop hook.
#[derive(Clone, Copy, Debug)]
enum Hook {
    None,
    /// A command that takes this many seconds, with this exit code.
    Exec(u64, i32),
    /// A pause.
    Sleep(i64),
}

/// One container of the pod.
#[derive(Clone, Copy, Debug)]
struct Part {
    hook: Hook,
    /// Seconds of a postStart pause.
    post_start: Option<i64>,
    /// Seconds from SIGTERM to its exit; `None` if it ignores the signal.
    stops_after: Option<u64>,
}

#[derive(Clone, Debug)]
struct Case {
    /// Before the main containers: sidecars, and plain init containers (`None`) that take a second.
    inits: Vec<Option<Part>>,
    mains: Vec<Part>,
    grace_seconds: i64,
    /// When the liveness probe of the first main container has failed, milliseconds after the pod was added.
    probe_fails_at: Option<u64>,
    /// When the pod is removed, milliseconds after it was added.
    removed_at: u64,
    /// When the daemon is killed, milliseconds after that.
    killed_at: Option<u64>,
}

fn any_part() -> impl Strategy<Value = Part> {
    let hook = prop_oneof![
        3 => Just(Hook::None),
        2 => (0u64..12, 0i32..2).prop_map(|(seconds, code)| Hook::Exec(seconds, code)),
        1 => (0i64..12).prop_map(Hook::Sleep),
    ];
    let post_start = prop::option::weighted(0.3, 0i64..6);
    let stops_after = prop::option::weighted(0.8, 0u64..8);
    (hook, post_start, stops_after).prop_map(|(hook, post_start, stops_after)| Part {
        hook,
        post_start,
        stops_after,
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let inits = prop::collection::vec(prop::option::weighted(0.7, any_part()), 0..4);
    let mains = prop::collection::vec(any_part(), 1..4);
    let fails_before = prop::option::weighted(0.4, 0u64..8_000);
    let killed_at = prop::option::weighted(0.3, 0u64..20_000);
    (inits, mains, 0i64..20, 0u64..8_000, fails_before, killed_at).prop_map(
        |(inits, mains, grace_seconds, removed_at, fails_before, killed_at)| Case {
            inits,
            mains,
            grace_seconds,
            probe_fails_at: fails_before.and_then(|before| removed_at.checked_sub(before)),
            removed_at,
            killed_at,
        },
    )
}

impl Case {
    fn pod(&self) -> Arc<AdmittedPod> {
        let of = |name: String, part: Option<Part>, policy: Option<&str>| {
            let mut container = json!({"name": name, "image": "img", "imagePullPolicy": "IfNotPresent"});
            if let Some(policy) = policy {
                container["restartPolicy"] = json!(policy);
            }
            if name == "m0" {
                container["livenessProbe"] = json!({"tcpSocket": {"port": 80}});
            }
            match part.map(|part| part.hook) {
                Some(Hook::Exec(seconds, code)) => {
                    let command = ["pre-stop".to_owned(), seconds.to_string(), code.to_string()];
                    container["lifecycle"]["preStop"] = json!({"exec": {"command": command}});
                }
                Some(Hook::Sleep(seconds)) => {
                    container["lifecycle"]["preStop"] = json!({"sleep": {"seconds": seconds}});
                }
                Some(Hook::None) | None => {}
            }
            if let Some(seconds) = part.and_then(|part| part.post_start) {
                container["lifecycle"]["postStart"] = json!({"sleep": {"seconds": seconds}});
            }
            container
        };
        let inits =
            self.inits.iter().enumerate().map(|(n, part)| of(format!("i{n}"), *part, part.map(|_| "Always")));
        let inits: Vec<Value> = inits.collect();
        let mains: Vec<Value> =
            self.mains.iter().enumerate().map(|(n, part)| of(format!("m{n}"), Some(*part), None)).collect();
        pod_with("p", "u", "Always", &[]).edited(|pod| {
            let spec = pod.spec.as_mut().unwrap();
            spec.termination_grace_period_seconds = Some(self.grace_seconds);
            spec.init_containers = serde_json::from_value(json!(inits)).unwrap();
            spec.containers = serde_json::from_value(json!(mains)).unwrap();
        })
    }

    /// Scripts the containers and the hooks.
    fn script(&self, node: &Node) {
        let on_term = |part: &Part| match part.stops_after {
            Some(seconds) => OnTerm::Exits { after: Duration::from_secs(seconds), code: 0 },
            None => OnTerm::Ignores,
        };
        for (n, part) in self.inits.iter().enumerate() {
            let script = match part {
                Some(part) => Script::forever().on_term(on_term(part)),
                None => Script::exits(SECOND, 0),
            };
            node.runtime.script(&format!("i{n}"), script);
        }
        for (n, part) in self.mains.iter().enumerate() {
            node.runtime.script(&format!("m{n}"), Script::forever().on_term(on_term(part)));
        }
        for (seconds, code) in (0..12).flat_map(|seconds| [(seconds, 0), (seconds, 1)]) {
            let output = ExecOutput { exit_code: code, ..ExecOutput::default() };
            let words = [seconds.to_string(), code.to_string()];
            let exec = Exec { takes: Duration::from_secs(seconds), output };
            node.runtime.script_exec(&["pre-stop", &words[0], &words[1]], exec);
        }
    }
}

/// The seconds within which all containers have to be gone: the grace period, and the least time of each group that is stopped
/// after it is over, plus slack for the calls.
fn bound(case: &Case) -> Duration {
    let groups = 1 + case.inits.iter().flatten().count() as u64;
    Duration::from_secs(case.grace_seconds.max(2) as u64 + 2 * groups + 2)
}

async fn check(case: &Case) {
    let mut node = Node::new();
    case.script(&node);
    let pod = case.pod();
    node.want([pod.clone()]);
    let added = Instant::now();
    if let Some(at) = case.probe_fails_at {
        sleep(Duration::from_millis(at)).await;
        fail_probe(&node);
    }
    sleep_until(added + Duration::from_millis(case.removed_at)).await;
    let removed = Instant::now();
    let ran: Vec<String> = node.running("u").into_iter().map(|(name, _)| name).collect();
    node.want([]);
    let mut down = Duration::ZERO;
    if let Some(after) = case.killed_at {
        sleep(Duration::from_millis(after)).await;
        node.sync_store();
        node.stop().await;
        down = 2 * SECOND;
        sleep(down).await;
        node.boot();
        node.want([]);
    }
    let patience = bound(case) + Duration::from_secs(120);
    node.until("nothing is left", patience, |node| !node.has("u")).await;

    let history = node.runtime.history_after(0);
    let late = history.iter().find(|h| h.what == What::Started && h.at > removed + SECOND / 2);
    assert!(late.is_none(), "{late:?} after the removal at {removed:?}");
    let ends: BTreeMap<&str, Instant> =
        history.iter().filter(|h| is_end(h)).map(|h| (h.id.as_str(), h.at)).collect();
    // A daemon that was killed begins again: what had not been signaled has its grace period anew.
    if case.killed_at.is_none() {
        let last = ends.values().max().copied().unwrap_or(removed);
        assert!(last <= removed + bound(case) + down, "the last container ended {:?} after", last - removed);
    }
    check_hooks(case, &node, &ran);
    check_order(case, &node, &pod, &history, removed);
}

/// The liveness probe of the first main container has failed, if an instance of it runs.
fn fail_probe(node: &Node) {
    if let Some(container) = node.containers().into_iter().find(|c| c.runs && c.name == "m0") {
        let failed =
            ContainerProbes { started: true, failed: Some(ProbeKind::Liveness), ..Default::default() };
        let found = PodProbes([(ContainerId::from(container.id.as_str()), failed)].into());
        node.probes.set(&"u".into(), found);
    }
}

fn is_end(happened: &Happened) -> bool {
    matches!(happened.what, What::Ended { .. })
}

/// Every hook runs at most once for each instance, and all of them run if there is time.
fn check_hooks(case: &Case, node: &Node, ran: &[String]) {
    let execs = node.runtime.calls_of(Operation::ExecSync);
    let mut per_container: BTreeMap<&str, usize> = BTreeMap::new();
    for call in &execs {
        *per_container.entry(call.target.as_str()).or_default() += 1;
    }
    assert!(per_container.values().all(|times| *times == 1), "{per_container:?}");
    if case.killed_at.is_some() || case.grace_seconds == 0 {
        return;
    }
    let has_exec = |name: &String| {
        let (list, index) = name.split_at(1);
        let index: usize = index.parse().unwrap();
        let part = if list == "m" { Some(case.mains[index]) } else { case.inits[index] };
        part.is_some_and(|part| matches!(part.hook, Hook::Exec(..)))
    };
    let expected = ran.iter().filter(|name| has_exec(name)).count();
    assert!(execs.len() >= expected, "{expected} of {ran:?} have hooks, {} ran", execs.len());
}

/// Within the grace period, a sidecar is stopped after the main containers and the later sidecars.
fn check_order(case: &Case, node: &Node, pod: &AdmittedPod, history: &[Happened], removed: Instant) {
    if case.killed_at.is_some() {
        return;
    }
    let names: BTreeMap<&str, &str> = history.iter().map(|h| (h.id.as_str(), h.name.as_str())).collect();
    let over = removed + Duration::from_secs(case.grace_seconds.max(1) as u64) - SECOND;
    for stop in node.runtime.calls_of(Operation::StopContainer).iter().filter(|call| call.at < over) {
        let Some(name) = names.get(stop.target.as_str()) else { continue };
        if pod.kind_of(name) != Some(ContainerKind::Sidecar) {
            continue;
        }
        let comes_first = |other: &str| match pod.kind_of(other) {
            Some(ContainerKind::Main) => true,
            Some(ContainerKind::Sidecar) => other > *name,
            _ => false,
        };
        for other in history.iter().filter(|h| comes_first(&h.name) && h.what == What::Started) {
            let ended = history.iter().find(|h| h.id == other.id && is_end(h)).map(|h| h.at);
            assert!(
                ended.is_some_and(|at| at <= stop.at),
                "{name} is stopped at {:?}, {} ended at {ended:?}",
                stop.at - removed,
                other.name
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_pod_terminates_in_order_and_in_time(case in any_case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(&case));
    }
}

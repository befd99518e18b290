//! Random pods: mostly guaranteed ones with whole CPUs, which is what the managers are about.

use std::collections::BTreeMap;

use hostlet_resources::Machine;
use k8s_openapi::api::core::v1::Pod;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::case::Step;

pub(crate) struct Pods {
    cpus: usize,
    mebibytes: u64,
    huge_pages: bool,
    pod_level: bool,
}

impl Pods {
    pub(crate) fn new(machine: &Machine, pod_level: bool) -> Self {
        let memory = machine.nodes.values().map(|node| node.memory).max().unwrap_or_default();
        let huge_pages = machine.nodes.values().any(|node| !node.huge_pages.is_empty());
        Self { cpus: machine.cpus.len(), mebibytes: memory >> 20, huge_pages, pod_level }
    }

    /// Pods come and go, and their containers start.
    pub(crate) fn steps(&self, rng: &mut StdRng) -> Vec<Step> {
        let mut present: Vec<(String, Vec<String>)> = Vec::new();
        let mut steps = Vec::new();
        for number in 0..rng.random_range(3..12) {
            let some = present.choose(rng).cloned();
            match (rng.random_range(0..10), some) {
                (0 | 1, Some((uid, _))) => {
                    present.retain(|(other, _)| *other != uid);
                    steps.push(Step::Remove(uid));
                }
                (2, Some((uid, containers))) => {
                    let container = containers.choose(rng).cloned().unwrap_or_default();
                    steps.push(Step::Started { pod: uid, container });
                }
                _ => {
                    let uid = format!("uid-{number}");
                    let (pod, containers) = self.pod(rng, &uid);
                    present.push((uid, containers));
                    steps.push(Step::Add(Box::new(pod)));
                }
            }
        }
        steps
    }

    fn pod(&self, rng: &mut StdRng, uid: &str) -> (Pod, Vec<String>) {
        let is_guaranteed = rng.random_bool(0.85);
        let mut names = Vec::new();
        let inits = if rng.random_bool(0.4) { rng.random_range(1..=3) } else { 0 };
        let mut container = |rng: &mut StdRng, name: String| {
            let has_limits = is_guaranteed || rng.random_bool(0.5);
            let resources = self.resources(rng, has_limits);
            names.push(name.clone());
            json!({"name": name, "resources": resources})
        };
        let inits: Vec<Value> = (0..inits)
            .map(|at| {
                let mut init = container(rng, format!("init-{at}"));
                if rng.random_bool(0.3) {
                    init["restartPolicy"] = "Always".into();
                }
                init
            })
            .collect();
        let main: Vec<Value> = (0..[1, 1, 2, 3].choose(rng).copied().unwrap_or(1))
            .map(|at| container(rng, format!("main-{at}")))
            .collect();
        let mut spec = json!({"containers": main, "initContainers": inits});
        if self.pod_level && rng.random_bool(0.6) {
            self.add_own_resources(rng, &mut spec);
        }
        let pod = json!({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec});
        (serde_json::from_value(pod).unwrap_or_default(), names)
    }

    /// A pod with resources of its own; some of its containers share these.
    fn add_own_resources(&self, rng: &mut StdRng, spec: &mut Value) {
        let mut own = self.amounts(rng);
        own.insert("cpu", rng.random_range(1..=self.cpus.min(12)).to_string());
        own.insert("memory", format!("{}Mi", rng.random_range(32..self.mebibytes)));
        spec["resources"] = json!({"requests": own, "limits": own});
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if rng.random_bool(0.5) {
                    container["resources"] = json!({});
                }
            }
        }
    }

    fn resources(&self, rng: &mut StdRng, is_guaranteed: bool) -> Value {
        let amounts = self.amounts(rng);
        if is_guaranteed {
            json!({"requests": amounts, "limits": amounts})
        } else {
            json!({"requests": amounts})
        }
    }

    fn amounts(&self, rng: &mut StdRng) -> BTreeMap<&'static str, String> {
        let most = if rng.random_bool(0.2) { self.cpus } else { (self.cpus / 3).max(1) };
        let cpus = rng.random_range(1..=most);
        let memory = if rng.random_bool(0.1) { self.mebibytes * 2 } else { self.mebibytes / 3 };
        let cpu = if rng.random_bool(0.1) { format!("{}m", cpus * 1000 + 500) } else { cpus.to_string() };
        let memory = format!("{}Mi", rng.random_range(16..memory.max(17)));
        let mut amounts = BTreeMap::from([("cpu", cpu), ("memory", memory)]);
        if self.huge_pages && rng.random_bool(0.3) {
            amounts.insert("hugepages-2Mi", format!("{}Mi", rng.random_range(0..16) * 2));
        }
        amounts
    }
}

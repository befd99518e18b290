//! A pod as a line. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;

use hostlet_observe::status::summary;
use hostlet_pod::view::PodView;
use hostlet_serve::server::{DEFAULT_CONTAINER, UsageView, UsedView};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;

use super::args::SortBy;
use crate::commands::table::message;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) ready: String,
    pub(super) status: String,
    pub(super) restarts: i32,
    #[serde(skip)]
    pub(super) age: String,
    #[serde(flatten)]
    pub(super) used: UsedView,
    /// Why it is not running; empty if it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) waits_for: String,
    /// Its containers: first the one that commands are for.
    #[serde(skip)]
    pub(super) containers: Vec<String>,
}

impl Row {
    /// As commands name it.
    pub(super) fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the text is in what identifies the pod: its name or its status.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.pod().contains(text) || self.status.to_lowercase().contains(&text.to_lowercase())
    }
}

/// The pods with what they use, in the order of `pods`.
pub(super) fn rows(pods: &[Pod], usage: Option<&UsageView>, now: Timestamp) -> Vec<Row> {
    let used: HashMap<&str, UsedView> =
        usage.iter().flat_map(|usage| &usage.pods).map(|pod| (pod.uid.as_str(), pod.used)).collect();
    let row = |pod: &Pod| {
        let line = summary(pod, now);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        Row {
            used: used.get(uid.as_str()).copied().unwrap_or_default(),
            waits_for: message(pod),
            containers: containers(pod),
            namespace: line.namespace,
            name: line.name,
            ready: line.ready,
            status: line.status,
            restarts: line.restart_count,
            age: line.age,
            uid,
        }
    };
    pods.iter().map(row).collect()
}

fn containers(pod: &Pod) -> Vec<String> {
    let view = PodView::from(pod);
    let main = view.spec.containers.iter().map(|container| &container.name);
    let inits = view.init_containers().iter().map(|container| &container.name);
    let ephemeral = view.spec.ephemeral_containers.iter().flatten().map(|container| &container.name);
    let mut names: Vec<String> = main.chain(inits).chain(ephemeral).cloned().collect();
    let annotations = pod.metadata.annotations.as_ref();
    if let Some(default) = annotations.and_then(|annotations| annotations.get(DEFAULT_CONTAINER)) {
        names.sort_by_key(|name| name != default);
    }
    names
}

/// Sorts the pods. Equal ones are in the order of their names.
pub(super) fn sort(rows: &mut [&Row], by: SortBy) {
    rows.sort_by(|a, b| {
        let by_amount = match by {
            SortBy::Cpu => Reverse(a.used.cpu_nano_cores).cmp(&Reverse(b.used.cpu_nano_cores)),
            SortBy::Memory => Reverse(a.used.memory_bytes).cmp(&Reverse(b.used.memory_bytes)),
            SortBy::Restarts => Reverse(a.restarts).cmp(&Reverse(b.restarts)),
            SortBy::Name => std::cmp::Ordering::Equal,
        };
        by_amount.then_with(|| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_serve::server::PodUsedView;

    fn row(name: &str, cpu: Option<u64>, memory: u64, restarts: i32) -> Row {
        let used = UsedView { cpu_nano_cores: cpu, memory_bytes: Some(memory), memory_limit_bytes: None };
        Row { name: name.to_owned(), used, restarts, ..Row::default() }
    }

    #[test]
    fn equal_pods_are_sorted_by_name_and_unknown_amounts_come_last() {
        let all =
            [row("b", None, 9, 0), row("c", Some(5), 1, 0), row("a", Some(5), 2, 7), row("d", Some(6), 1, 0)];
        let sorted = |by| {
            let mut rows: Vec<&Row> = all.iter().collect();
            sort(&mut rows, by);
            rows.iter().map(|row| row.name.as_str()).collect::<String>()
        };
        assert_eq!(sorted(SortBy::Cpu), "dacb");
        assert_eq!(sorted(SortBy::Memory), "bacd");
        assert_eq!(sorted(SortBy::Restarts), "abcd");
        assert_eq!(sorted(SortBy::Name), "abcd");
    }

    #[test]
    fn a_pod_has_its_usage_and_the_default_container_first() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u",
                "annotations": {"kubectl.kubernetes.io/default-container": "b"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": {"phase": "Failed", "reason": "Evicted", "message": "too\nlarge"},
        }))
        .unwrap();
        let used = UsedView { cpu_nano_cores: Some(1), memory_bytes: Some(2), memory_limit_bytes: None };
        let of = |uid: &str| PodUsedView { uid: uid.to_owned(), used, ..PodUsedView::default() };
        let usage = UsageView { pods: vec![of("other"), of("u")], ..UsageView::default() };
        let known = rows(std::slice::from_ref(&pod), Some(&usage), Timestamp::UNIX_EPOCH).remove(0);
        assert_eq!((known.used, &*known.status, &*known.waits_for), (used, "Evicted", "too large"));
        assert_eq!(known.containers, ["b", "a", "i"]);
        assert!(known.matches("default/w") && known.matches("evict") && !known.matches("x"));
        assert_eq!(rows(&[pod], None, Timestamp::UNIX_EPOCH)[0].used, UsedView::default());
    }
}

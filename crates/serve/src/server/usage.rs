//! `GET /v1/usage`: the CPU and memory that the node and its pods use, measured when somebody asks.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use hostlet_cluster::node::NodeDescriber;
use hostlet_observe::stats::{CgroupUsage, Detail, NodeUsage, PodUsage, UsageStats};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::error::RequestError;

/// What the node and its pods use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// When it was measured, at most a second ago.
    pub at: Timestamp,
    /// Online CPUs.
    pub cpus: u64,
    /// The whole host. Its limit is its memory.
    pub node: UsedView,
    /// The pods of the runtime, by namespace and name.
    pub pods: Vec<PodUsedView>,
}

/// What a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUsedView {
    /// The namespace that it is in.
    pub namespace: String,
    /// `metadata.name`, with the node's name if it is a static pod.
    pub name: String,
    /// UID by the labels of its sandbox.
    pub uid: String,
    /// What it uses.
    #[serde(flatten)]
    pub used: UsedView,
}

/// CPU and memory. What is unknown is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedView {
    /// The CPU now, billionths of a core. Known from the second measurement on, a second after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_nano_cores: Option<u64>,
    /// The working set, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The limit of the memory, bytes; `None` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
}

impl UsedView {
    fn of(usage: &CgroupUsage) -> Self {
        Self {
            cpu_nano_cores: usage.cpu.rate,
            memory_bytes: Some(usage.memory.working_set),
            memory_limit_bytes: usage.limits.memory,
        }
    }
}

/// Who measures.
pub struct UsageEndpoint {
    /// What everything uses; `None` until the runtime has answered.
    pub stats: watch::Receiver<Option<UsageStats>>,
    /// Knows the machine.
    pub describer: NodeDescriber,
}

impl UsageEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/usage", get(usage)).with_state(Arc::new(self))
    }
}

async fn usage(State(endpoint): State<Arc<UsageEndpoint>>) -> Result<Json<UsageView>, RequestError> {
    let stats = endpoint.stats.borrow().clone().ok_or(RequestError::NotMeasuredYet)?;
    let usage = stats.usage(Detail::CpuAndMemory).await.map_err(RequestError::Measure)?;
    let cpus = endpoint.describer.inputs.host.borrow().cpus;
    Ok(Json(view(&usage, u64::try_from(cpus).unwrap_or(u64::MAX))))
}

fn view(usage: &NodeUsage, cpus: u64) -> UsageView {
    let pod = |pod: &PodUsage| PodUsedView {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        uid: pod.pod.uid.to_string(),
        used: pod.usage().map(|usage| UsedView::of(&usage)).unwrap_or_default(),
    };
    UsageView {
        at: usage.at,
        cpus,
        node: UsedView::of(&usage.root.usage),
        pods: usage.pods.iter().map(pod).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::PodRef;
    use hostlet_observe::stats::{
        ContainerUsage, CpuUsage, MemoryUsage, SandboxUsage, TaskCount, UnitUsage, UsageLimits,
    };

    fn unit(rate: Option<u64>, working_set: u64, limit: Option<u64>) -> UnitUsage {
        let usage = CgroupUsage {
            cpu: CpuUsage { rate, ..CpuUsage::default() },
            memory: MemoryUsage { working_set, ..MemoryUsage::default() },
            limits: UsageLimits { memory: limit, ..UsageLimits::default() },
            ..CgroupUsage::default()
        };
        UnitUsage { path: "/a".to_owned(), usage }
    }

    fn pod(name: &str, unit: Option<UnitUsage>, containers: Vec<UnitUsage>) -> PodUsage {
        let at = Timestamp::UNIX_EPOCH;
        let container = |unit| ContainerUsage {
            name: "c".into(),
            id: "c".into(),
            image: String::new(),
            created_at: at,
            started_at: at,
            unit: Some(unit),
        };
        PodUsage {
            pod: PodRef::new("default", name, name),
            sandbox: SandboxUsage { id: "s".into(), created_at: at, unit: None },
            unit,
            network: None,
            containers: containers.into_iter().map(container).collect(),
        }
    }

    #[test]
    fn a_pod_uses_what_its_cgroup_does_or_what_its_containers_do() {
        let usage = NodeUsage {
            at: Timestamp::UNIX_EPOCH,
            root: unit(Some(7), 100, Some(1000)),
            network: Vec::new(),
            kubelet: None,
            runtime: None,
            misc: None,
            all_pods: None,
            pods: vec![
                pod("a", Some(unit(None, 5, Some(50))), vec![unit(Some(1), 1, None)]),
                pod("b", None, vec![unit(Some(1), 10, Some(20)), unit(Some(2), 20, None)]),
                pod("c", None, Vec::new()),
            ],
            devices: [].into(),
            tasks: TaskCount::default(),
            filesystem: None,
        };
        let view = view(&usage, 4);
        let used = |cpu_nano_cores, memory_bytes, memory_limit_bytes| UsedView {
            cpu_nano_cores,
            memory_bytes,
            memory_limit_bytes,
        };
        assert_eq!((view.cpus, view.node), (4, used(Some(7), Some(100), Some(1000))));
        let pods: Vec<UsedView> = view.pods.iter().map(|pod| pod.used).collect();
        assert_eq!(pods[..2], [used(None, Some(5), Some(50)), used(Some(3), Some(30), None)]);
        assert_eq!(pods[2], UsedView::default());
        let sent = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<UsageView>(&sent).unwrap(), view);
        assert!(sent.contains(r#""uid":"b","cpuNanoCores":3,"memoryBytes":30}"#), "{sent}");
    }
}

//! Resize to effect: from the request for other memory until the container's cgroup has it, and until the pod's status says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use hostlet_integration::real::PAUSE_IMAGE;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::lab::{ClusterLab, Side};
use crate::lab::{LONG, TICK};
use crate::report::{Row, Target, Unit};
use crate::single::pause;
use crate::stats::{median_ms, p90_ms};

/// Samples of each figure.
const SAMPLES: usize = 12;
/// The limit of memory before, MiB. Every sample adds as much.
const MEBIBYTES: usize = 32;
/// An interval of the runtime's lists, in milliseconds.
const RELIST: f64 = 1000.0;

/// Requested → enforced, and requested → reported.
pub(crate) async fn resize(cluster: &ClusterLab) -> Result<Vec<Row>> {
    let (mut enforced, mut reported) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for (index, side) in cluster.sides.iter().enumerate() {
        let (names, _) = cluster.run_specs(side, vec![spec()]).await?;
        let name = names.first().context("no pod")?;
        let file = limit_file(cluster, side, name).await?;
        for sample in 1..=SAMPLES {
            pause().await;
            let (in_cgroup, in_status) = one(cluster, name, &file, MEBIBYTES * (sample + 1)).await?;
            enforced[index].push(in_cgroup);
            reported[index].push(in_status);
        }
        cluster.end(side, &names).await?;
    }
    let row = |what: &str, [hostlet, stock]: &[Vec<Duration>; 2], of: fn(&[Duration]) -> f64| {
        Row::new(format!("cluster, one pod: resize requested -> {what}"), Unit::Milliseconds)
            .hostlet(of(hostlet))
            .stock(of(stock))
    };
    Ok(vec![
        row("in its cgroup, p50", &enforced, median_ms).target(Target::OfStock(1.0)),
        row("in its cgroup, p90", &enforced, p90_ms).target(Target::AtMost(RELIST)),
        row("in its status, p50", &reported, median_ms).target(Target::OfStock(1.0)),
        row("in its status, p90", &reported, p90_ms).target(Target::AtMost(RELIST)),
    ])
}

fn spec() -> Value {
    json!({
        "automountServiceAccountToken": false,
        "containers": [{"name": "pause", "image": PAUSE_IMAGE, "resources": resources(MEBIBYTES)}],
    })
}

fn resources(mebibytes: usize) -> Value {
    json!({"limits": {"memory": format!("{mebibytes}Mi")}, "requests": {"memory": format!("{MEBIBYTES}Mi")}})
}

async fn one(
    cluster: &ClusterLab,
    name: &str,
    file: &Path,
    mebibytes: usize,
) -> Result<(Duration, Duration)> {
    let api = cluster.api();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = Box::pin(api.watch(&params, "0").await?);
    let change = json!({"spec": {"containers": [{"name": "pause", "resources": resources(mebibytes)}]}});
    let begin = Instant::now();
    api.patch_subresource("resize", name, &PatchParams::default(), &Patch::Strategic(change)).await?;
    let limit = (mebibytes << 20).to_string();
    let in_cgroup = async {
        while fs::read_to_string(file)?.trim() != limit {
            sleep(TICK).await;
        }
        anyhow::Ok(begin.elapsed())
    };
    let in_status = async {
        let wanted = format!("{mebibytes}Mi");
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
                && shown(&pod) == Some(&wanted)
            {
                return Ok(begin.elapsed());
            }
        }
        bail!("the watch of {name} ended")
    };
    let both = async { tokio::try_join!(in_cgroup, in_status) };
    timeout(LONG, both).await.with_context(|| format!("{name} was not resized within {LONG:?}"))?
}

/// The limit of memory in a pod's status.
fn shown(pod: &Pod) -> Option<&String> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    Some(&container.resources.as_ref()?.limits.as_ref()?.get("memory")?.0)
}

/// The file with the limit of memory of the pod's container, on cgroup v1 or v2.
async fn limit_file(cluster: &ClusterLab, side: &Side, name: &str) -> Result<PathBuf> {
    let id = cluster.container_id(name).await?;
    let processes = cluster.node(side).host().container_processes()?;
    let process = processes.iter().find(|process| process.container == id);
    let pid = process.context("the container has no process")?.pid;
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let path = |hierarchy: &str, root: &str, file: &str| {
        let line = membership.lines().find_map(|line| line.split_once(hierarchy))?;
        Some(PathBuf::from(format!("/sys/fs/cgroup/{root}{}/{file}", line.1)))
    };
    let v1 = path(":memory:", "memory", "memory.limit_in_bytes");
    v1.or_else(|| path("0::", "", "memory.max")).context("the container has no memory cgroup")
}

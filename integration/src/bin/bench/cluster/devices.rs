//! Pods with a device of a plugin: one at a time with an exclusive CPU, 110 at once, and what the pod resources API costs beside them. The
//! plugin answers at once, so the time is the agent's.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hostlet_integration::device_plugin::{DevicePluginOptions, DevicePluginProcess};
use hostlet_integration::real::PAUSE_IMAGE;
use hostlet_integration::{Look, wait_for};
use hostlet_plugins::connect;
use hostlet_proto::pod_resources::ListPodResourcesRequest;
use hostlet_proto::pod_resources::pod_resources_lister_client::PodResourcesListerClient;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::lab::{ClusterLab, Side};
use super::many::{PODS, SETTLE};
use crate::lab::LONG;
use crate::process::cpu_seconds;
use crate::report::{Row, Target, Unit};
use crate::single::pause;
use crate::stats::{median, median_ms, ms, p90_ms};

const RESOURCE: &str = "bench.hostlet.test/device";
/// Single pods of each agent.
const SAMPLES: usize = 12;
/// Turns of each agent with as many pods.
const ROUNDS: usize = 2;
/// Calls of `List` in each, as fast as the agent answers, within its limit of 100 a second.
const CALLS: usize = 200;
const CALL_PAUSE: Duration = Duration::from_millis(12);

/// The figures of an agent.
#[derive(Default)]
struct Figures {
    ready: Vec<Duration>,
    gone: Vec<Duration>,
    last_ready: Vec<f64>,
    middle_ready: Vec<f64>,
    last_gone: Vec<f64>,
    lists: Vec<Duration>,
    list_cpu: Vec<f64>,
}

/// The scenario, on nodes of its own, because of the CPU manager's policy.
pub(crate) async fn devices() -> Result<Vec<Row>> {
    let policy = json!({"maxPods": PODS, "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"});
    let cluster = ClusterLab::configured(&policy).await?;
    let plugins = start_plugins(&cluster).await?;
    let mut figures = [Figures::default(), Figures::default()];
    for _ in 0..SAMPLES {
        for (side, figures) in cluster.sides.iter().zip(&mut figures) {
            let own = json!({RESOURCE: 1, "cpu": 1, "memory": "32Mi"});
            let (names, ready) = cluster.run_specs(side, vec![spec(&own)]).await?;
            pause().await;
            figures.gone.extend(cluster.end(side, &names).await?);
            figures.ready.extend(ready);
            pause().await;
        }
    }
    for _ in 0..ROUNDS {
        for (side, figures) in cluster.sides.iter().zip(&mut figures) {
            many(&cluster, side, figures).await?;
        }
    }
    drop(plugins);
    Ok(rows(&figures))
}

fn rows([hostlet, stock]: &[Figures; 2]) -> Vec<Row> {
    let row = |metric: &str, of: &dyn Fn(&Figures) -> f64| {
        let row = Row::new(format!("cluster, devices: {metric}"), Unit::Milliseconds);
        row.hostlet(of(hostlet)).stock(of(stock)).target(Target::OfStock(1.0))
    };
    let many =
        |metric: &str, of: &dyn Fn(&Figures) -> f64| row(&format!("{PODS} pods at once, {metric}"), of);
    vec![
        row("one pod with an exclusive CPU, created -> Ready, p50", &|it| median_ms(&it.ready)),
        row("one pod with an exclusive CPU, created -> Ready, p90", &|it| p90_ms(&it.ready)),
        row("one pod with an exclusive CPU, deleted -> gone, p50", &|it| median_ms(&it.gone)),
        many("the last is Ready", &|it| median(&it.last_ready)),
        many("the middle pod is Ready", &|it| median(&it.middle_ready)),
        many("deleted -> the last is gone", &|it| median(&it.last_gone)),
        row(&format!("List beside {PODS} pods, p50"), &|it| median_ms(&it.lists)),
        row(&format!("List beside {PODS} pods, p90"), &|it| p90_ms(&it.lists)),
        row(&format!("List beside {PODS} pods, the agent's CPU"), &|it| median(&it.list_cpu)),
    ]
}

/// All pods at once on a node, calls of `List` beside them, and their end.
async fn many(cluster: &ClusterLab, side: &Side, figures: &mut Figures) -> Result<()> {
    let device = json!({RESOURCE: 1});
    let (names, ready) = cluster.run_specs(side, vec![spec(&device); PODS]).await?;
    let last = |took: &[Duration]| ms(took.iter().max().copied().unwrap_or_default());
    figures.last_ready.push(last(&ready));
    figures.middle_ready.push(median_ms(&ready));
    sleep(SETTLE).await;
    list(cluster, side, figures).await?;
    let gone = cluster.end(side, &names).await?;
    figures.last_gone.push(last(&gone));
    crate::note(&format!(
        "{PODS} pods with a device each, {:?}: last ready {:.0} ms, last gone {:.0} ms, List {:.2} ms",
        side.agent,
        last(&ready),
        last(&gone),
        median_ms(&figures.lists)
    ));
    sleep(SETTLE).await;
    cluster.clean(side).await?;
    sleep(SETTLE).await;
    Ok(())
}

/// Asks who has which device.
async fn list(cluster: &ClusterLab, side: &Side, figures: &mut Figures) -> Result<()> {
    let node = cluster.node(side);
    let channel = connect(&node.root_dir().join("pod-resources/kubelet.sock")).await?;
    let mut client = PodResourcesListerClient::new(channel);
    let before = cpu_seconds(node.agent_pid()?)?;
    for _ in 0..CALLS {
        let begin = Instant::now();
        let answer = client.list(ListPodResourcesRequest {}).await?.into_inner();
        figures.lists.push(begin.elapsed());
        let devices = answer.pod_resources.iter().flat_map(|pod| &pod.containers).flat_map(|it| &it.devices);
        let number: usize = devices.map(|entry| entry.device_ids.len()).sum();
        ensure!(number == PODS, "{:?} says that {number} devices are allocated", side.agent);
        sleep(CALL_PAUSE).await;
    }
    figures.list_cpu.push((cpu_seconds(node.agent_pid()?)? - before) * 1000.0 / CALLS as f64);
    Ok(())
}

/// Starts the plugin on both nodes, and waits until its devices are allocatable.
async fn start_plugins(cluster: &ClusterLab) -> Result<Vec<DevicePluginProcess>> {
    let nodes: Api<Node> = Api::all(cluster.tenant().client());
    let devices: serde_json::Map<String, Value> =
        (0..PODS).map(|number| (format!("device-{number}"), json!([0]))).collect();
    let mut plugins = Vec::new();
    for side in &cluster.sides {
        let node = cluster.node(side);
        let work = node.root_dir().with_file_name("device-plugin");
        fs::create_dir_all(&work).context("a directory for a plugin")?;
        let options = DevicePluginOptions {
            program: DevicePluginProcess::built()?,
            resource: RESOURCE.to_owned(),
            root: node.root_dir(),
            work,
        };
        let mut plugin = DevicePluginProcess::new(options, &json!({"devices": devices}))?;
        plugin.start()?;
        plugins.push(plugin);
        wait_for("the devices are allocatable", LONG, async || {
            let status = nodes.get(node.name()).await?.status.unwrap_or_default();
            let number = status.allocatable.and_then(|all| all.get(RESOURCE).map(|it| it.0.clone()));
            let is_done = number.as_deref() == Some(&*PODS.to_string());
            Ok(if is_done { Look::Done(()) } else { Look::NotYet(format!("{number:?}")) })
        })
        .await?;
    }
    Ok(plugins)
}

/// A pod whose container is guaranteed these resources.
fn spec(limits: &Value) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "pause", "image": PAUSE_IMAGE, "resources": {"limits": limits, "requests": limits},
        }],
    })
}

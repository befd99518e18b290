//! Pods with a volume of a CSI driver: one at a time, a hundred at once, and the first pod of an agent that is started again beside a
//! hundred mounted volumes. The driver binds directories, so the time is nearly the agent's.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use hostlet_integration::csi::{CsiDriver, CsiDriverOptions, csi_registrar};
use hostlet_integration::real::PAUSE_IMAGE;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::lab::ClusterLab;
use super::many::SETTLE;
use crate::lab::LONG;
use crate::report::{Row, Target, Unit};
use crate::single::pause;
use crate::stats::{median, median_ms, ms, p90_ms};

const DRIVER: &str = "csi.bench.hostlet.test";
/// Single pods of each agent.
const SAMPLES: usize = 12;
/// Pods at once, each with a volume of its own.
const PODS: usize = 100;
/// Turns of each agent with as many pods, and restarts in each.
const ROUNDS: usize = 2;
const RESTARTS: usize = 3;

/// The figures of an agent.
#[derive(Default)]
struct Figures {
    ready: Vec<Duration>,
    gone: Vec<Duration>,
    last_ready: Vec<f64>,
    middle_ready: Vec<f64>,
    last_gone: Vec<f64>,
    restarted: Vec<f64>,
}

/// The scenario, on nodes of its own, because agents are started again.
pub(crate) async fn csi() -> Result<Vec<Row>> {
    let mut cluster = ClusterLab::start().await?;
    let drivers = start_drivers(&cluster).await?;
    create_claims(&cluster).await?;
    let mut figures = [Figures::default(), Figures::default()];
    for _ in 0..SAMPLES {
        for (side, figures) in cluster.sides.iter().zip(&mut figures) {
            let (names, ready) = cluster.run_specs(side, vec![spec(0)]).await?;
            pause().await;
            figures.gone.extend(cluster.end(side, &names).await?);
            figures.ready.extend(ready);
            pause().await;
        }
    }
    for _ in 0..ROUNDS {
        for (index, figures) in figures.iter_mut().enumerate() {
            many(&mut cluster, index, figures).await?;
        }
    }
    drop(drivers);
    let volumes: Api<PersistentVolume> = Api::all(cluster.tenant().client());
    volumes.delete_collection(&DeleteParams::default(), &ListParams::default().labels(DRIVER)).await?;
    let objects: Api<CSIDriver> = Api::all(cluster.tenant().client());
    objects.delete(DRIVER, &DeleteParams::default()).await?;
    Ok(rows(&figures))
}

fn rows([hostlet, stock]: &[Figures; 2]) -> Vec<Row> {
    let row = |metric: &str, of: &dyn Fn(&Figures) -> f64| {
        let row = Row::new(format!("cluster, CSI volumes: {metric}"), Unit::Milliseconds);
        row.hostlet(of(hostlet)).stock(of(stock)).target(Target::OfStock(1.0))
    };
    let many =
        |metric: &str, of: &dyn Fn(&Figures) -> f64| row(&format!("{PODS} pods at once, {metric}"), of);
    vec![
        row("one pod, created -> Ready, p50", &|it| median_ms(&it.ready)),
        row("one pod, created -> Ready, p90", &|it| p90_ms(&it.ready)),
        row("one pod, deleted -> gone, p50", &|it| median_ms(&it.gone)),
        row("one pod, deleted -> gone, p90", &|it| p90_ms(&it.gone)),
        many("the last is Ready", &|it| median(&it.last_ready)),
        many("the middle pod is Ready", &|it| median(&it.middle_ready)),
        many("deleted -> the last is gone", &|it| median(&it.last_gone)),
        row(&format!("agent started beside {PODS} -> its first pod is Ready"), &|it| median(&it.restarted)),
    ]
}

/// All pods at once on a node, restarts of its agent meanwhile, and their end.
async fn many(cluster: &mut ClusterLab, index: usize, figures: &mut Figures) -> Result<()> {
    let (names, ready) = cluster.run_specs(&cluster.sides[index], (1..=PODS).map(spec).collect()).await?;
    let last = |took: &[Duration]| ms(took.iter().max().copied().unwrap_or_default());
    figures.last_ready.push(last(&ready));
    figures.middle_ready.push(median_ms(&ready));
    sleep(SETTLE).await;
    for _ in 0..RESTARTS {
        cluster.kill_agent(index)?;
        let begin = Instant::now();
        cluster.start_agent(index)?;
        let (first, _) = cluster.run_specs(&cluster.sides[index], vec![spec(0)]).await?;
        figures.restarted.push(ms(begin.elapsed()));
        cluster.end(&cluster.sides[index], &first).await?;
        sleep(SETTLE).await;
    }
    let side = &cluster.sides[index];
    let gone = cluster.end(side, &names).await?;
    figures.last_gone.push(last(&gone));
    crate::note(&format!(
        "{PODS} pods with a CSI volume each, {:?}: last ready {:.0} ms, last gone {:.0} ms, restarts {:.0?} ms",
        side.agent,
        last(&ready),
        last(&gone),
        figures.restarted
    ));
    sleep(SETTLE).await;
    cluster.clean(side).await?;
    sleep(SETTLE).await;
    Ok(())
}

/// Starts the driver on both nodes, and waits until they have it.
async fn start_drivers(cluster: &ClusterLab) -> Result<Vec<CsiDriver>> {
    let objects: Api<CSIDriver> = Api::all(cluster.tenant().client());
    let object = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": false}});
    objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let nodes: Api<CSINode> = Api::all(cluster.tenant().client());
    let mut drivers = Vec::new();
    for side in &cluster.sides {
        let node = cluster.node(side);
        let work = node.root_dir().with_file_name("csi");
        std::fs::create_dir_all(&work).context("a directory for a driver")?;
        let mut driver = CsiDriver::new(CsiDriverOptions {
            program: CsiDriver::built()?,
            name: DRIVER.to_owned(),
            node_id: node.name().to_owned(),
            root: node.root_dir(),
            volumes: work.join("volumes"),
            work,
            arguments: vec!["--no-attach".to_owned()],
            registrar: Some(csi_registrar()?),
        });
        driver.start()?;
        drivers.push(driver);
        wait_for("the driver is registered", LONG, async || {
            let has = nodes.get(node.name()).await?.spec.drivers.iter().any(|driver| driver.name == DRIVER);
            Ok(if has { Look::Done(()) } else { Look::NotYet(node.name().to_owned()) })
        })
        .await?;
    }
    Ok(drivers)
}

/// Creates the volumes and their claims, and waits until they are bound.
async fn create_claims(cluster: &ClusterLab) -> Result<()> {
    let tenant = cluster.tenant();
    let volumes: Api<PersistentVolume> = Api::all(tenant.client());
    try_join_all((0..=PODS).map(async |number| {
        let (claim, volume) = (claim(number), format!("bench-{}", claim(number)));
        let object = json!({
            "metadata": {"name": volume, "labels": {DRIVER: ""}},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "claimRef": {"namespace": tenant.namespace(), "name": claim},
                "csi": {"driver": DRIVER, "volumeHandle": claim, "volumeAttributes": {"create": "true"}},
            },
        });
        volumes.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        let object = json!({
            "metadata": {"name": claim},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        tenant.create::<PersistentVolumeClaim>(object).await.map(drop)
    }))
    .await
    .context("creating volumes")?;
    wait_for("the claims are bound", LONG, async || {
        let claims = tenant.api::<PersistentVolumeClaim>().list(&ListParams::default()).await?.items;
        let is_bound = |claim: &PersistentVolumeClaim| {
            claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
        };
        let left = claims.iter().filter(|claim| !is_bound(claim)).count();
        Ok(if left == 0 { Look::Done(()) } else { Look::NotYet(format!("{left} are not")) })
    })
    .await
}

fn claim(number: usize) -> String {
    format!("data-{number}")
}

/// A pod that mounts a claim.
fn spec(number: usize) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "pause", "image": PAUSE_IMAGE, "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim(number)}}],
    })
}

//! Devices of a DRA driver: how soon clients can read its ResourceSlices, with how many writes, and the memory they take.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use hostlet_integration::cluster::{Agent, DraDriver, Node, Tenant};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::lab::{LONG, ask};
use crate::process::memory;
use crate::report::{Row, Unit};
use crate::stats::{median, ms};

const DRIVER: &str = "gpu.example.com";
/// Devices of the measured driver.
const DEVICES: usize = 500;
/// Devices whose memory is measured.
const MANY: usize = 5000;
/// Changes of one device that are measured.
const CHANGES: i64 = 20;
/// Longer than the minimum time between two reconciliations.
const PAUSE: Duration = Duration::from_millis(1500);

/// Ten attributes and capacities for each device; `revision` is that of the first device.
fn models(devices: usize, revision: i64) -> Value {
    let instance = |number: usize| {
        let revision = if number == 0 { revision } else { 0 };
        let mut attributes = vec![
            json!({"name": "model", "string": "accelerator-8000"}),
            json!({"name": "uuid", "string": format!("GPU-{number:08x}-1111-2222-3333-444444444444")}),
            json!({"name": "revision", "int": revision}),
            json!({"name": "driver-version", "version": "1.2.3"}),
            json!({"name": "memory", "quantity": "16Gi"}),
        ];
        attributes
            .extend((0..5).map(|index| json!({"name": format!("feature-{index}"), "bool": index % 2 == 0})));
        json!({"name": format!("gpu-{number:04}"), "attributes": attributes})
    };
    json!([{"namedResources": {"instances": (0..devices).map(instance).collect::<Vec<_>>()}}])
}

/// Waits until a client reads a complete pool with this many devices and this revision; returns the number of slices.
async fn readable(tenant: &Tenant, devices: usize, revision: i64) -> Result<usize> {
    let api: Api<ResourceSlice> = Api::all(tenant.client());
    let params = ListParams::default().fields(&format!("spec.nodeName={}", tenant.nodes[0].name()));
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        let slices = api.list(&params).await?.items;
        let is_complete = slices.iter().all(|slice| {
            let (pool, first) = (&slice.spec.pool, &slices[0].spec.pool);
            pool.generation == first.generation && pool.resource_slice_count == slices.len() as i64
        });
        let all: Vec<_> = slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten()).collect();
        let is_first = |attributes: Option<i64>| attributes == Some(revision);
        let seen = all
            .iter()
            .find(|device| device.name == "gpu-0000")
            .and_then(|device| device.attributes.as_ref()?.get("revision")?.int);
        if is_complete && all.len() == devices && (devices == 0 || is_first(seen)) {
            return Ok(slices.len());
        }
    }
    bail!("{devices} devices with revision {revision} are not published")
}

/// Writes of slices so far, as hostlet counts them.
async fn writes(node: &Node) -> Result<f64> {
    let metrics = String::from_utf8(ask(&node.host().hostlet_socket(), "/metrics").await?)?;
    let lines = metrics.lines().filter(|line| line.starts_with("hostlet_dra_resource_slice_writes_total"));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum())
}

/// The scenario.
pub(crate) async fn dra() -> Result<Vec<Row>> {
    let hostlet = json!({"hostlet": {"publishResourceSlices": true}});
    let tenant = Tenant::of("bench-dra", &[Agent::Hostlet], &hostlet).await?;
    let node = &tenant.nodes[0];
    let pid = node.agent_pid()?;
    sleep(PAUSE).await;
    let before = memory(pid)?.private;
    let mut driver = DraDriver::new(node, DRIVER, &models(DEVICES, 0))?;
    let began = Instant::now();
    driver.start()?;
    let slices = readable(&tenant, DEVICES, 0).await?;
    let registered = ms(began.elapsed());
    let created = writes(node).await?;
    let mut took = Vec::new();
    for revision in 1..=CHANGES {
        sleep(PAUSE).await;
        let began = Instant::now();
        driver.say(&models(DEVICES, revision))?;
        readable(&tenant, DEVICES, revision).await?;
        took.push(ms(began.elapsed()));
    }
    let changed = (writes(node).await? - created) / f64::from(i32::try_from(CHANGES).context("a number")?);
    driver.say(&models(MANY, CHANGES))?;
    readable(&tenant, MANY, CHANGES).await?;
    sleep(PAUSE).await;
    let per_thousand = (memory(pid)?.private - before) / (MANY as f64 / 1000.0);
    let row =
        |metric: &str, unit, figure| Row::new(format!("cluster, DRA driver: {metric}"), unit).hostlet(figure);
    Ok(vec![
        row(
            &format!("started with {DEVICES} devices -> {slices} slices readable"),
            Unit::Milliseconds,
            registered,
        ),
        row("writes for that", Unit::Count, created),
        row("one device changes -> readable", Unit::Milliseconds, median(&took)),
        row("writes for that", Unit::Count, changed),
        row("private memory per 1,000 devices", Unit::Megabytes, per_thousand / 1e6),
    ])
}

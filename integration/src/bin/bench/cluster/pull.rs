//! The first start of a pod whose images are not on the host yet, from a real registry. Bare calls pull one after the other, after the
//! sandbox, as the stock kubelet does.

use std::time::Duration;

use anyhow::{Result, bail};
use hostlet_integration::real::{CriSandbox, Distribution, LargeImages};
use hostlet_proto::cri::ContainerState;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::lab::ClusterLab;
use crate::lab::{LONG, Lab, TICK};
use crate::report::{Row, Target, Unit};
use crate::single::pause;
use crate::stats::median_ms;

/// Samples of each figure.
const SAMPLES: usize = 6;
/// The size of an image. Its pull takes about as long as a sandbox, on an idle machine.
const MEBIBYTES: u32 = 24;
/// What an init container does.
const INIT: [&str; 2] = ["sleep", "0.5"];
/// A container that ends at once on SIGTERM.
const MAIN: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"];

/// Created → Ready with one image, and with an init container of a second one.
pub(crate) async fn pull(lab: &Lab, cluster: &ClusterLab) -> Result<Vec<Row>> {
    let images = LargeImages::make(3 * SAMPLES, MEBIBYTES)?;
    let mut registries = vec![Distribution::start(&lab.host, &images).await?];
    for side in &cluster.sides {
        registries.push(Distribution::start(cluster.node(side).host(), &images).await?);
    }
    let (mut one, mut two) = (Figures::default(), Figures::default());
    for images in images.references().chunks(3) {
        let [alone, init, main] = images else { bail!("{} images", images.len()) };
        one.bare.push(bare(lab, None, alone).await?);
        two.bare.push(bare(lab, Some(init), main).await?);
        for (index, side) in cluster.sides.iter().enumerate() {
            for (spec, figures) in [(spec(None, alone), &mut one), (spec(Some(init), main), &mut two)] {
                let (mut names, took) = cluster.run_specs(side, vec![spec]).await?;
                figures.agents[index].extend(took);
                pause().await;
                for name in names.drain(..) {
                    cluster.end_one(side, name).await?;
                }
                pause().await;
            }
        }
    }
    let row = |what: &str, figures: &Figures| {
        let [hostlet, stock] = &figures.agents;
        Row::new(format!("cluster, first start with a pull{what}: created -> Ready, p50"), Unit::Milliseconds)
            .bare(median_ms(&figures.bare))
            .hostlet(median_ms(hostlet))
            .stock(median_ms(stock))
            .target(Target::OfStock(1.0))
    };
    Ok(vec![row("", &one), row(", init container of another image", &two)])
}

#[derive(Default)]
struct Figures {
    bare: Vec<Duration>,
    agents: [Vec<Duration>; 2],
}

fn spec(init: Option<&str>, main: &str) -> Value {
    let inits: Vec<Value> =
        init.map(|image| json!({"name": "init", "image": image, "command": INIT})).into_iter().collect();
    json!({
        "automountServiceAccountToken": false,
        "initContainers": inits,
        "containers": [{"name": "main", "image": main, "command": MAIN}],
    })
}

/// One step after the other; without the API server.
async fn bare(lab: &Lab, init: Option<&str>, main: &str) -> Result<Duration> {
    let cri = lab.host.cri();
    let sandbox = CriSandbox::new(&lab.name(), lab.host.id(), &lab.host.logs());
    let begin = Instant::now();
    let id = cri.run_sandbox(&sandbox).await?;
    if let Some(image) = init {
        cri.pull(&sandbox, image).await?;
        let container = cri.run_image(&sandbox, &id, image, "init", &INIT).await?;
        let exited = ContainerState::ContainerExited;
        while cri.container_status(&container).await?.state() != exited {
            if begin.elapsed() > LONG {
                bail!("an init container did not end within {LONG:?}");
            }
            sleep(TICK).await;
        }
    }
    cri.pull(&sandbox, main).await?;
    let container = cri.run_image(&sandbox, &id, main, "main", &MAIN).await?;
    let took = begin.elapsed();
    cri.stop_container(&container, 1).await?;
    cri.remove_sandbox(&id).await?;
    pause().await;
    Ok(took)
}

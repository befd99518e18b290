//! hostlet's bench: one command, one table, with ratios against bare CRI calls, and in a cluster against the stock kubelet,
//! made in the same run. `integration/bench.sh` builds what it needs and runs it. Judges; changes nothing of hostlet.

mod audit;
mod bare;
mod batch;
mod cluster;
mod footprint;
mod hollow;
mod lab;
mod probes;
mod process;
mod report;
mod single;
mod stats;
mod steps;
mod watch;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cluster::ClusterLab;
use crate::lab::Lab;
use crate::report::Row;

const USAGE: &str = "usage: bench [--json FILE] [SCENARIO...]
  start     one pod at a time: created -> runs
  end       one pod at a time: deleted -> gone
  restart   container killed -> the next one runs
  batch50   50 pods at once
  batch110  110 pods at once
  memory    memory with 0, 50, 110 pods; idle CPU, wake-ups, writes
  fake      the same with 0, 110, 500 pods on a fake runtime
  probes    50 exec and 500 HTTP probes per second, on a fake runtime
  gate      110 pods at once by maxConcurrentStarts: where its default comes from
  hollow    1,000 hollow nodes of one process on a real API server: requests, an outage of a minute, memory;
            HOSTLET_BENCH_HOLLOW_NODES sets another number
In a real cluster, on a node beside one with the stock kubelet, taking turns:
  cluster-start     one pod at a time: created -> Ready on a watch
  cluster-end       one pod at a time: deleted -> gone on a watch
  cluster-restart   container killed -> the next one runs
  cluster-requests  requests to the API server in a pod's life
  cluster-110       110 pods at once: created -> Ready, deleted -> gone
  cluster-probed    the same with a readiness probe and a sidecar each
  cluster-pull      first start with a pull from a registry: created -> Ready
  cluster-resize    resize of a running pod: requested -> in its cgroup, in its status
  cluster-logs      a log read through the API server: time and CPU
  cluster-idle      memory and CPU with 110 pods
  cluster-scrapes   answers about the use of resources with 110 pods: time, CPU
  cluster-exec      the command `true` with 110 pods, through the API server: time
  cluster-dra       ResourceSlices of a DRA driver; hostlet only
  cluster-csi       pods with a volume of a CSI driver, 100 of them, restarts of the agent beside them
  cluster-devices   pods with a device of a plugin, 110 of them, with an exclusive CPU; the pod resources API
  cluster           all of these
Without a scenario: all of them.";

/// The scenarios, in the order they run.
const SCENARIOS: [&str; 25] = [
    "start",
    "end",
    "restart",
    "batch50",
    "batch110",
    "memory",
    "fake",
    "probes",
    "gate",
    "hollow",
    "cluster-start",
    "cluster-end",
    "cluster-restart",
    "cluster-requests",
    "cluster-110",
    "cluster-probed",
    "cluster-pull",
    "cluster-resize",
    "cluster-logs",
    "cluster-idle",
    "cluster-scrapes",
    "cluster-exec",
    "cluster-dra",
    "cluster-csi",
    "cluster-devices",
];
/// What the names of those in a cluster begin with, and the name for all of them.
const CLUSTER: &str = "cluster";

struct Args {
    json: Option<PathBuf>,
    scenarios: Vec<String>,
}

fn args() -> Result<Args> {
    let mut parsed = Args { json: None, scenarios: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => parsed.json = Some(args.next().context("--json needs a file")?.into()),
            "--help" | "-h" => {
                print(&format!("{USAGE}\n"));
                std::process::exit(0);
            }
            CLUSTER => {
                let of_cluster = SCENARIOS.iter().filter(|name| name.starts_with(CLUSTER));
                parsed.scenarios.extend(of_cluster.map(|name| (*name).to_owned()));
            }
            name if SCENARIOS.contains(&name) => parsed.scenarios.push(arg),
            _ => bail!("unknown argument: {arg}\n{USAGE}"),
        }
    }
    if parsed.scenarios.is_empty() {
        parsed.scenarios = SCENARIOS.map(str::to_owned).to_vec();
    }
    Ok(parsed)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = args()?;
    let lab = Lab::start().await?;
    let cluster = if args.scenarios.iter().any(|name| name.starts_with(CLUSTER)) {
        Some(ClusterLab::start().await.context("bringing up a cluster")?)
    } else {
        None
    };
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for name in SCENARIOS.iter().filter(|name| args.scenarios.iter().any(|wanted| wanted == *name)) {
        note(&format!("{name} ..."));
        match scenario(name, &lab, cluster.as_ref()).await {
            Ok(measured) => rows.extend(measured),
            // The other scenarios take many minutes; one failure must not discard their results.
            Err(error) => {
                note(&format!("{name} failed: {error:#}"));
                failed.push(*name);
            }
        }
    }
    print(&report::table(&rows));
    if let Some(file) = args.json {
        let text = serde_json::to_string_pretty(&report::json(&rows))?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    if !failed.is_empty() {
        bail!("failed scenarios: {}", failed.join(", "));
    }
    Ok(())
}

async fn scenario(name: &str, lab: &Lab, cluster: Option<&ClusterLab>) -> Result<Vec<Row>> {
    let cluster = || cluster.context("no cluster");
    match name {
        "start" => single::start(lab).await,
        "end" => single::end(lab).await,
        "restart" => single::restart(lab).await,
        "batch50" => batch::run(lab, 50).await,
        "batch110" => batch::run(lab, 110).await,
        "memory" => footprint::real(lab).await,
        "fake" => footprint::fake().await,
        "probes" => probes::run().await,
        "gate" => batch::gate(lab, 110).await,
        "hollow" => hollow::run().await,
        "cluster-start" => cluster::start(lab, cluster()?).await,
        "cluster-end" => cluster::end(lab, cluster()?).await,
        "cluster-restart" => cluster::restart(lab, cluster()?).await,
        "cluster-requests" => cluster::requests(cluster()?).await,
        "cluster-110" => cluster::many(lab, cluster()?).await,
        "cluster-probed" => cluster::probed(lab, cluster()?).await,
        "cluster-pull" => cluster::pull(lab, cluster()?).await,
        "cluster-resize" => cluster::resize(cluster()?).await,
        "cluster-logs" => cluster::logs(cluster()?).await,
        "cluster-idle" => cluster::idle(cluster()?).await,
        "cluster-scrapes" => cluster::scrapes(cluster()?).await,
        "cluster-exec" => cluster::exec(cluster()?).await,
        "cluster-dra" => cluster::dra().await,
        "cluster-csi" => cluster::csi().await,
        "cluster-devices" => cluster::devices().await,
        _ => bail!("no scenario {name}"),
    }
}

/// Prints progress to stderr.
#[allow(clippy::print_stderr, reason = "a program of its own: stderr is where its progress goes")]
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

#[allow(clippy::print_stdout, reason = "a program of its own: the table is its output")]
fn print(text: &str) {
    print!("{text}");
}

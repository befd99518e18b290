//! Runs Kubernetes' own tests of nodes in a cluster with one node, of hostlet or the stock kubelet. `integration/conformance.sh` builds
//! what it needs and runs it.

use std::fs;

use anyhow::{Context, Result};
use hostlet_integration::cluster::{E2eImages, Tenant, kubernetes_program, may_lower_oom_scores};
use hostlet_integration::ginkgo::{Options, Suite};

/// The specs: of nodes, of features that are on by default, next to each other on a node.
const SPECS: &str = "sig-node && (Conformance || NodeConformance) && !Serial && !Disruptive && !(Feature: containsAny OffByDefault)";
/// Leaves out those that lower an OOM score, by upstream's label: without CAP_SYS_RESOURCE, no container can.
const WITHOUT_OOM_SCORES: &str = " && !(Environment: containsAny NotInUserNS)";
/// How many run at once. They mostly wait.
const PARALLEL: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::read("hostlet-conformance", PARALLEL)?;
    let mut tenant = Tenant::new("conformance", 1).await?;
    let node = &mut tenant.nodes[0];
    node.start_proxy()?;
    let images = E2eImages::serve(node.host()).await?;
    let outcome = suite(&tenant)?.run(&options);
    let log = options.report.join("node.log");
    fs::copy(tenant.nodes[0].log(), &log).context("keeping the node's log")?;
    drop(images);
    outcome
}

fn suite(tenant: &Tenant) -> Result<Suite> {
    let mut labels = SPECS.to_owned();
    if !may_lower_oom_scores() {
        print("NOT TESTED: guaranteed pods that are resized, for CAP_SYS_RESOURCE is missing\n");
        labels.push_str(WITHOUT_OOM_SCORES);
    }
    let mut arguments = vec![
        format!("--kubeconfig={}", tenant.cluster().inner_kubeconfig().display()),
        format!("--kubectl-path={}", kubernetes_program("kubectl")?.display()),
    ];
    arguments.extend(["--provider=local", "--num-nodes=1", "--dump-logs-on-failure=true"].map(str::to_owned));
    let ginkgo = tenant.cluster().command(&kubernetes_program("ginkgo")?.to_string_lossy());
    Ok(Suite { ginkgo, program: kubernetes_program("e2e.test")?, arguments, labels })
}

#[allow(clippy::print_stdout, reason = "a program of its own: this is its output")]
fn print(text: &str) {
    print!("{text}");
}

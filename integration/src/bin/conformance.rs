//! Runs Kubernetes' own tests of nodes and their volumes in a cluster with one node, of hostlet or the stock kubelet. `integration/conformance.sh` builds
//! what it needs and runs it.

use std::fs;

use anyhow::{Context, Result};
use hostlet_integration::cluster::{E2eImages, Tenant, kubernetes_program};
use hostlet_integration::ginkgo::{Options, Suite, oom_scores};

/// The specs of nodes and volumes, of features that are on by default, next to each other on a node; `--focus` selects from them.
const SPECS: &str =
    "(sig-node || sig-storage) && !Serial && !Disruptive && !(Feature: containsAny OffByDefault)";
/// Of these by default.
const BY_DEFAULT: &str = "(Conformance || NodeConformance)";
/// How many run at once. They mostly wait.
const PARALLEL: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::read("hostlet-conformance", PARALLEL)?;
    if options.is_made {
        return options.judge();
    }
    let mut tenant = Tenant::new("conformance", 1).await?;
    let node = &mut tenant.nodes[0];
    node.start_proxy()?;
    let images = E2eImages::serve(node.host()).await?;
    let outcome = suite(&tenant, &options)?.run(&options);
    let log = options.report.join("node.log");
    fs::copy(tenant.nodes[0].log(), &log).context("keeping the node's log")?;
    drop(images);
    outcome
}

fn suite(tenant: &Tenant, options: &Options) -> Result<Suite> {
    let mut labels = vec![SPECS];
    if !options.has_focus() {
        labels.push(BY_DEFAULT);
    }
    labels.extend(oom_scores());
    let mut arguments = vec![
        format!("--kubeconfig={}", tenant.cluster().inner_kubeconfig().display()),
        format!("--kubectl-path={}", kubernetes_program("kubectl")?.display()),
    ];
    arguments.extend(["--provider=local", "--num-nodes=1", "--dump-logs-on-failure=true"].map(str::to_owned));
    let ginkgo = tenant.cluster().command(&kubernetes_program("ginkgo")?.to_string_lossy());
    Ok(Suite { ginkgo, program: kubernetes_program("e2e.test")?, arguments, labels: labels.join(" && ") })
}

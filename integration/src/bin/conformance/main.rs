//! Runs Kubernetes' own tests of nodes in a cluster with one node, of hostlet or the stock kubelet, and judges their report.
//! `integration/conformance.sh` builds what it needs and runs it.

mod report;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hostlet_integration::cluster::{
    Agent, Tenant, kubernetes_program, make_e2e_images, may_lower_oom_scores,
};
use hostlet_integration::real::Distribution;

use crate::report::{Known, Outcome, judge, read_known, read_report};

/// The specs: of nodes, of features that are on by default, next to each other on a node.
const SPECS: &str = "sig-node && (Conformance || NodeConformance) && !Serial && !Disruptive && !(Feature: containsAny OffByDefault)";
/// Leaves out those that lower an OOM score, by upstream's label: without CAP_SYS_RESOURCE, no container can.
const WITHOUT_OOM_SCORES: &str = " && !(Environment: containsAny NotInUserNS)";
/// How many run at once. They mostly wait.
const PARALLEL: usize = 10;
/// The registry of their images, which no test host has to reach.
const REGISTRY: &str = "registry.k8s.io";
/// In `ginkgo`'s notation. They take half an hour.
const TIME_LIMIT: &str = "3h";

struct Args {
    known: PathBuf,
    focus: Option<String>,
    skip: Option<String>,
    report: PathBuf,
}

fn args() -> Result<Args> {
    let (mut known, mut focus, mut skip, mut report) = (None, None, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().with_context(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--known" => known = Some(value.into()),
            "--focus" => focus = Some(value),
            "--skip" => skip = Some(value),
            "--report" => report = Some(value.into()),
            _ => bail!("unknown argument: {arg}"),
        }
    }
    let report: PathBuf = report.unwrap_or_else(|| std::env::temp_dir().join("hostlet-conformance"));
    // ginkgo runs the tests in another directory.
    let report = std::path::absolute(report).context("the directory of the report")?;
    Ok(Args { known: known.context("--known is missing")?, focus, skip, report })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = args()?;
    let known =
        fs::read_to_string(&args.known).with_context(|| format!("reading {}", args.known.display()))?;
    let known = read_known(&known)?;
    fs::create_dir_all(&args.report).with_context(|| format!("creating {}", args.report.display()))?;
    let mut tenant = Tenant::new("conformance", 1).await?;
    let node = &mut tenant.nodes[0];
    node.start_proxy()?;
    let images = tempfile::tempdir().context("a directory for images")?;
    let registry = Distribution::start_empty(node.host()).await?;
    registry.stand_in_for(node.host(), REGISTRY)?;
    for image in make_e2e_images(images.path())? {
        registry.push(node.host(), &image.layout, &image.name, &image.tag)?;
    }
    drop(images);
    let report = run(&tenant, &args)?;
    let log = args.report.join("node.log");
    fs::copy(tenant.nodes[0].log(), &log).context("keeping the node's log")?;
    let outcome = judge(&read_report(&report)?, &known, args.focus.is_none() && args.skip.is_none());
    print(&summary(&outcome, &known, &args.report));
    ensure!(outcome.is_good(), "not every spec passed");
    Ok(())
}

/// Runs the specs, whatever their results, and returns ginkgo's report.
fn run(tenant: &Tenant, args: &Args) -> Result<String> {
    let (json, log) = ("report.json", args.report.join("e2e.log"));
    let file = args.report.join(json);
    if file.exists() {
        fs::remove_file(&file).context("removing an old report")?;
    }
    let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    print(&format!("running the specs with {:?}; their log: {}\n", Agent::chosen()?, log.display()));
    let mut specs = SPECS.to_owned();
    if !may_lower_oom_scores() {
        print("NOT TESTED: guaranteed pods that are resized, for CAP_SYS_RESOURCE is missing\n");
        specs.push_str(WITHOUT_OOM_SCORES);
    }
    let mut command = tenant.cluster().command(&kubernetes_program("ginkgo")?.to_string_lossy());
    command.arg(format!("--procs={PARALLEL}")).arg(format!("--label-filter={specs}"));
    command.args(args.focus.iter().map(|focus| format!("--focus={focus}")));
    command.args(args.skip.iter().map(|skip| format!("--skip={skip}")));
    command.arg(format!("--timeout={TIME_LIMIT}")).args(["--keep-going", "--no-color", "--silence-skips"]);
    command.arg(format!("--output-dir={}", args.report.display()));
    command.arg(format!("--json-report={json}")).arg("--junit-report=junit.xml");
    command.arg(kubernetes_program("e2e.test")?).arg("--");
    command.arg(format!("--kubeconfig={}", tenant.cluster().inner_kubeconfig().display()));
    command.arg(format!("--kubectl-path={}", kubernetes_program("kubectl")?.display()));
    command.args(["--provider=local", "--num-nodes=1", "--dump-logs-on-failure=true"]);
    ended(&mut command, output)?;
    fs::read_to_string(&file).with_context(|| format!("the tests made no report; see {}", log.display()))
}

/// Runs a command to its end, with its output in a file.
fn ended(command: &mut Command, output: File) -> Result<()> {
    let second = output.try_clone().context("a second handle of a log")?;
    // It fails if a spec does; the report says more.
    command.stdout(output).stderr(second).status().with_context(|| format!("{command:?}"))?;
    Ok(())
}

fn summary(outcome: &Outcome, known: &[Known], report: &Path) -> String {
    let mut text = String::new();
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("{title}:\n"));
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    };
    section("skipped themselves", outcome.skipped.iter().map(ToString::to_string).collect());
    section("failed, as known", outcome.known.clone());
    section("known to fail, but did not", outcome.fixed.clone());
    section("FAILED", outcome.failed.iter().map(ToString::to_string).collect());
    format!(
        "{text}{} passed, {} failed of which {} are known ({} listed), {} skipped themselves; reports: {}\n",
        outcome.passed,
        outcome.failed.len() + outcome.known.len(),
        outcome.known.len(),
        known.len(),
        outcome.skipped.len(),
        report.display()
    )
}

#[allow(clippy::print_stdout, reason = "a program of its own: the summary is its output")]
fn print(text: &str) {
    print!("{text}");
}

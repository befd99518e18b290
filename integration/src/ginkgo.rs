//! Runs Kubernetes' own tests under ginkgo, their framework, and judges its report, or one of a run elsewhere, beside a list of known
//! failures.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::cluster::{Agent, may_lower_oom_scores};

/// How the reason of a known failure begins if hostlet does on purpose what the spec forbids.
const BY_DESIGN: &str = "by design: ";
/// In `ginkgo`'s notation.
const TIME_LIMIT: &str = "3h";
/// ginkgo's report in the directory of the reports.
const REPORT: &str = "report.json";

/// A spec that is expected to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    name: String,
    reason: String,
}

impl Known {
    /// Whether hostlet does on purpose what the spec forbids. Any other reason is one of the host or of the images, for every kubelet.
    fn is_by_design(&self) -> bool {
        self.reason.starts_with(BY_DESIGN)
    }

    /// Whether it is expected of an agent.
    fn concerns(&self, agent: Agent) -> bool {
        agent == Agent::Hostlet || !self.is_by_design()
    }
}

/// The command line of a program that runs a suite.
#[derive(Debug)]
pub struct Options {
    known: Vec<Known>,
    focus: Option<String>,
    skip: Option<String>,
    processes: usize,
    /// The directory of the reports, which exists.
    pub report: PathBuf,
    /// Whether the report is there already, of specs that ran elsewhere.
    pub is_made: bool,
}

impl Options {
    /// Reads the command line. The reports are in the directory `report` of temporary files, unless it names another one, or one with a
    /// report to judge; this many specs run at once, unless it gives another number.
    pub fn read(report: &str, processes: usize) -> Result<Self> {
        let (mut known, mut focus, mut skip) = (None, None, None);
        let mut report = std::env::temp_dir().join(report);
        let (mut processes, mut is_made) = (processes, false);
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let value = args.next().with_context(|| format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--known" => known = Some(PathBuf::from(value)),
                "--focus" => focus = Some(value),
                "--skip" => skip = Some(value),
                "--report" => report = value.into(),
                "--judge" => (report, is_made) = (value.into(), true),
                "--procs" => {
                    processes = value.parse().with_context(|| format!("--procs {value}: not a number"))?;
                }
                _ => bail!("unknown argument: {arg}"),
            }
        }
        let known = known.context("--known is missing")?;
        let text = fs::read_to_string(&known).with_context(|| format!("reading {}", known.display()))?;
        let known = read_known(&text)?;
        // ginkgo runs the tests in another directory.
        let report = std::path::absolute(report).context("the directory of the report")?;
        fs::create_dir_all(&report).with_context(|| format!("creating {}", report.display()))?;
        Ok(Self { known, focus, skip, processes, report, is_made })
    }

    /// Whether the command line selects specs by their names.
    pub fn has_focus(&self) -> bool {
        self.focus.is_some()
    }

    /// Judges the report, prints a summary, and fails unless each spec passed that has to.
    #[allow(clippy::print_stdout, reason = "the summary is the output of the programs that run a suite")]
    pub fn judge(&self) -> Result<()> {
        let agent = Agent::chosen()?;
        let file = self.report.join(REPORT);
        let report = fs::read_to_string(&file)
            .with_context(|| format!("the tests made no report, {}; see their log there", file.display()))?;
        let known: Vec<Known> = self.known.iter().filter(|known| known.concerns(agent)).cloned().collect();
        let outcome = judge(&read_report(&report)?, &known);
        print!("{}", outcome.summary(known.len(), &self.report));
        ensure!(outcome.is_good(), "not every spec did what it has to");
        Ok(())
    }
}

/// Labels that leave out specs that lower an OOM score, by upstream's name for their environment, if no container here can: without
/// CAP_SYS_RESOURCE.
#[allow(
    clippy::print_stdout,
    reason = "what is not tested belongs to the output of the programs that run a suite"
)]
pub fn oom_scores() -> Option<&'static str> {
    let are_fixed = !may_lower_oom_scores();
    if are_fixed {
        println!("NOT TESTED: guaranteed pods that are resized, for CAP_SYS_RESOURCE is missing");
    }
    are_fixed.then_some("!(Environment: containsAny NotInUserNS)")
}

/// A suite of tests to run.
#[derive(Debug)]
pub struct Suite {
    /// ginkgo, in the network of the tests.
    pub ginkgo: Command,
    /// The program with the tests.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The labels of the specs to run, in ginkgo's language.
    pub labels: String,
}

impl Suite {
    /// Runs the specs and judges their report.
    #[allow(clippy::print_stdout, reason = "what runs is the output of the programs that run a suite")]
    pub fn run(mut self, options: &Options) -> Result<()> {
        let log = options.report.join("tests.log");
        let file = options.report.join(REPORT);
        if file.exists() {
            fs::remove_file(&file).context("removing an old report")?;
        }
        println!("running the specs with {:?}; their log: {}", Agent::chosen()?, log.display());
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let second = output.try_clone().context("a second handle of a log")?;
        let command = &mut self.ginkgo;
        command.arg(format!("--procs={}", options.processes)).arg(format!("--label-filter={}", self.labels));
        command.args(options.focus.iter().map(|focus| format!("--focus={focus}")));
        command.args(options.skip.iter().map(|skip| format!("--skip={skip}")));
        command.arg(format!("--timeout={TIME_LIMIT}")).args([
            "--keep-going",
            "--no-color",
            "--silence-skips",
        ]);
        command.arg(format!("--output-dir={}", options.report.display()));
        command.arg(format!("--json-report={REPORT}")).arg("--junit-report=junit.xml");
        command.arg(&self.program).arg("--").args(&self.arguments);
        // It fails if a spec does; the report says more.
        command.stdout(output).stderr(second).status().with_context(|| format!("{command:?}"))?;
        options.judge()
    }
}

/// A spec of the report, or another step of the suite.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_text: String,
    leaf_node_type: String,
    state: String,
    #[serde(default)]
    failure: Failure,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SuiteReport {
    spec_reports: Option<Vec<Spec>>,
    /// Why the suite as a whole failed, e.g. because its time was up: the specs that did not run are no failures.
    special_suite_failure_reasons: Option<Vec<String>>,
}

/// A spec and its message.
#[derive(Debug, PartialEq, Eq)]
struct SpecMessage {
    name: String,
    message: String,
}

impl fmt::Display for SpecMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.name, self.message)
    }
}

/// The judgement.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    passed: usize,
    /// Unexpected failures.
    failed: Vec<SpecMessage>,
    /// Expected failures.
    known: Vec<String>,
    /// Specs that are expected to fail, but passed, or are not there.
    fixed: Vec<String>,
    /// Specs that hostlet fails on purpose, but that passed.
    struck: Vec<String>,
    /// Specs that found that the cluster lacks what they need.
    skipped: Vec<SpecMessage>,
}

impl Outcome {
    /// Whether every spec passed that had to, and none that must not. On another host, others of the list may pass too.
    fn is_good(&self) -> bool {
        self.passed > 0 && self.failed.is_empty() && self.struck.is_empty()
    }

    /// The summary, with the number of known failures.
    fn summary(&self, known: usize, report: &Path) -> String {
        let mut text = String::new();
        let mut section = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                text.push_str(&format!("{title}:\n"));
                lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
            }
        };
        section("skipped themselves", self.skipped.iter().map(ToString::to_string).collect());
        section("failed, as known", self.known.clone());
        section("known to fail, but did not", self.fixed.clone());
        section("PASSED: strike them off the list of known failures", self.struck.clone());
        section("FAILED", self.failed.iter().map(ToString::to_string).collect());
        format!(
            "{text}{} passed, {} failed of which {} are known ({known} listed), {} skipped themselves; reports: {}\n",
            self.passed,
            self.failed.len() + self.known.len(),
            self.known.len(),
            self.skipped.len(),
            report.display()
        )
    }
}

/// Reads the list of known failures: the name of a spec on a line, then its reason on indented ones. `#` begins a comment.
fn read_known(text: &str) -> Result<Vec<Known>> {
    let mut all: Vec<Known> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if line.starts_with(char::is_whitespace) {
            let last = all.last_mut().context("a reason without a spec")?;
            last.reason = format!("{} {}", last.reason, line.trim()).trim_start().to_owned();
        } else {
            all.push(Known { name: line.trim_end().to_owned(), reason: String::new() });
        }
    }
    if let Some(known) = all.iter().find(|known| known.reason.is_empty()) {
        bail!("no reason why this spec fails: {}", known.name);
    }
    Ok(all)
}

/// Reads ginkgo's report: of one suite, as there is one program.
fn read_report(text: &str) -> Result<SuiteReport> {
    let suites: Vec<SuiteReport> = serde_json::from_str(text).context("ginkgo's report")?;
    suites.into_iter().next().context("ginkgo's report has no suite")
}

/// Judges the specs of a report, which also has those that were not to run, as skipped.
fn judge(report: &SuiteReport, known: &[Known]) -> Outcome {
    let mut outcome = Outcome::default();
    for reason in report.special_suite_failure_reasons.iter().flatten() {
        outcome.failed.push(SpecMessage { name: "the suite".to_owned(), message: reason.clone() });
    }
    let specs = report.spec_reports.as_deref().unwrap_or_default();
    for spec in specs {
        let name = spec.name();
        let message = || spec.failure.message.lines().next().unwrap_or_default().to_owned();
        match spec.state.as_str() {
            "passed" if spec.leaf_node_type == "It" => outcome.passed += 1,
            "passed" | "pending" => {}
            // Those that the filter leaves out have no message.
            "skipped" if spec.failure.message.is_empty() => {}
            "skipped" => outcome.skipped.push(SpecMessage { name, message: message() }),
            _ if known.iter().any(|known| known.name == name) => outcome.known.push(name),
            state => {
                let message = format!("{state}: {}", message());
                outcome.failed.push(SpecMessage { name, message });
            }
        }
    }
    for Known { name, .. } in known.iter().filter(|known| !known.is_by_design()) {
        if has_passed(specs, name) || !specs.iter().any(|spec| spec.name() == *name) {
            outcome.fixed.push(name.clone());
        }
    }
    let struck = known.iter().filter(|known| known.is_by_design() && has_passed(specs, &known.name));
    outcome.struck = struck.map(|known| known.name.clone()).collect();
    outcome
}

fn has_passed(specs: &[Spec], name: &str) -> bool {
    specs.iter().any(|spec| spec.state == "passed" && spec.name() == name)
}

impl Spec {
    fn name(&self) -> String {
        let texts = self.container_hierarchy_texts.iter().flatten().chain([&self.leaf_node_text]);
        let texts: Vec<&str> = texts.map(String::as_str).filter(|text| !text.is_empty()).collect();
        match &self.leaf_node_type[..] {
            "It" => texts.join(" "),
            step => format!("[{step}] {}", texts.join(" ")).trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "ginkgo_tests.rs"]
mod tests;

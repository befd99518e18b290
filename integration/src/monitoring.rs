//! The queries of `packaging/monitoring/`, evaluated with Prometheus' own engine on scrapes of a node: a Go program (`promql_check`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{integration_dir, lib, run};

/// A query on the scrapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// How many series it returned that are numbers.
    pub series: usize,
    /// The panel or the rule that it is of.
    pub owner: String,
    /// The query, without comparisons that only a fault makes true.
    pub query: String,
}

/// Whether the program can be built here: it takes Go.
pub fn can_evaluate() -> bool {
    lib("go_program", [""; 0]).is_ok()
}

/// Every query of the rules and of the dashboard, evaluated at the time of the last scrape. Each file in the directory is the response of a
/// target at the time when it was written. Builds the program if necessary.
pub fn evaluate(scrapes: &Path) -> Result<Vec<Evaluated>> {
    let monitoring = integration_dir().join("../packaging/monitoring");
    let mut command = Command::new(lib("promql_check", [""; 0])?.trim());
    command.arg("-scrapes").arg(scrapes);
    command.args(["hostlet-rules.yaml", "hostlet-dashboard.json"].map(|file| monitoring.join(file)));
    let output = run(&mut command)?;
    let evaluated = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        let series = parts.next()?.parse().ok()?;
        Some(Evaluated { series, owner: parts.next()?.to_owned(), query: parts.next()?.to_owned() })
    };
    output.lines().map(|line| evaluated(line).with_context(|| format!("not a result: {line}"))).collect()
}

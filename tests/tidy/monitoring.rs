//! Checks of what hostlet gives to monitoring: the Prometheus rules and the Grafana dashboard use metrics that exist, and each alert says
//! which command to run. That Prometheus can read the expressions is a test in `integration/`.

use std::collections::BTreeSet;

use crate::root;

/// Beginnings of the names of metrics.
const PREFIXES: [&str; 9] = [
    "hostlet_",
    "kubelet_",
    "container_",
    "machine_",
    "prober_",
    "process_",
    "rest_client_",
    "volume_manager_",
    "storage_operation_",
];
/// Labels that begin alike.
const LABELS: [&str; 2] = ["container_state", "container_type"];
/// What Prometheus appends to the names of histograms.
const SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];

const RULES: &str = "packaging/monitoring/hostlet-rules.yaml";
const DASHBOARD: &str = "packaging/monitoring/hostlet-dashboard.json";

#[expect(clippy::unwrap_used, reason = "a check whose file is missing fails")]
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The words that are names of metrics or of recordings.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches(':'));
    let is_metric = |word: &&str| {
        word.starts_with("hostlet:")
            || PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && !LABELS.contains(word)
    };
    words.filter(is_metric).collect()
}

/// The names in `text`, and those of the recordings in the rules.
fn known() -> BTreeSet<String> {
    let documented = read("docs/metrics.md");
    let served = documented.split("<!-- left out: begin -->").next().unwrap_or_default();
    let quoted = served.split('`').skip(1).step_by(2).map(str::to_owned);
    // The page has patterns of these.
    let cadvisor = read("crates/serve/src/node_api/stats/cadvisor_families.rs");
    let machine = read("crates/serve/src/node_api/stats/machine.rs");
    let literals = [cadvisor, machine].concat();
    let literals: Vec<String> = literals.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let rules = read(RULES);
    let recorded: Vec<String> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).map(str::to_owned).collect();
    quoted.chain(literals).chain(recorded).collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let known = known();
    for file in [RULES, DASHBOARD] {
        let text = read(file);
        let used = metrics(&text);
        assert!(used.len() > 20, "only {} metrics found in {file}: looking in the wrong way?", used.len());
        let exists = |name: &&str| {
            let mut families = SUFFIXES.iter().filter_map(|suffix| name.strip_suffix(suffix));
            known.contains(*name) || families.any(|family| known.contains(family))
        };
        let missing: Vec<&str> = used.into_iter().filter(|name| !exists(name)).collect();
        assert_eq!(missing, [""; 0], "{file}");
    }
}

#[test]
fn each_alert_names_a_command_that_exists() {
    let command = read("crates/cli/src/commands/command.rs");
    let commands = command.split("\npub enum Command {").nth(1).unwrap().split("\n}").next().unwrap();
    let commands: BTreeSet<String> = commands
        .lines()
        .filter_map(|line| line.trim().split(['(', ',', ' ']).next())
        .map(str::to_lowercase)
        .collect();
    assert!(commands.contains("explain"), "{commands:?}");
    let rules = read(RULES);
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 20, "only {} alerts", alerts.len());
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        let runbook =
            alert.split("runbook: ").nth(1).and_then(|text| text.lines().next()).unwrap_or_default();
        let named: Vec<&str> = runbook.split('`').skip(1).step_by(2).collect();
        let ours: Vec<&str> = named.iter().filter_map(|quoted| quoted.strip_prefix("hostlet ")).collect();
        assert!(!ours.is_empty() || runbook.contains("`journalctl -u hostlet"), "{name}: {runbook}");
        for arguments in ours {
            let first = arguments.split(' ').next().unwrap();
            assert!(commands.contains(first), "{name}: no command `hostlet {first}`");
        }
    }
}

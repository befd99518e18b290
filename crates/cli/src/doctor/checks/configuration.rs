//! The configuration, and who runs the checks.

use hostlet_config::Config;

use super::super::facts::Facts;
use super::super::report::Finding;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.is_root {
        findings
            .push(Finding::unknown("user", "not root, so some things cannot be seen: run this with sudo"));
    }
    let configuration = &facts.configuration;
    let what = match &configuration.file {
        Some(file) => file.display().to_string(),
        None => "no file, all defaults".to_owned(),
    };
    for error in &configuration.errors {
        findings.push(Finding::wrong(
            "configuration",
            error.clone(),
            "correct it; hostlet config check FILE checks it again",
        ));
    }
    for warning in &configuration.warnings {
        findings.push(Finding::warning("configuration", warning.clone(), "remove the setting"));
    }
    if configuration.errors.is_empty() && configuration.warnings.is_empty() {
        findings.push(Finding::ok("configuration", what));
    }
    if let Some(manifests) = &configuration.missing_manifests {
        findings.push(Finding::warning(
            "manifests",
            format!("{} does not exist, so there are no static pods", manifests.display()),
            format!("mkdir -p {}", manifests.display()),
        ));
    } else if !has_source(&facts.config) {
        findings.push(Finding::warning(
            "manifests",
            "none of staticPodPath, staticPodURL and --kubeconfig is set, so there are no pods",
            "set staticPodPath in the configuration",
        ));
    }
    findings
}

fn has_source(config: &Config) -> bool {
    let sources = &config.sources;
    sources.static_pod_path.is_some() || sources.static_pod_url.is_some() || config.cluster.is_some()
}

//! Judges the report of ginkgo, the framework of Kubernetes' own tests. Pure.

use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

/// A spec that fails with the stock kubelet too.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    name: String,
    reason: String,
}

/// A spec of the report, or another step of the suite.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Spec {
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Option<Vec<Spec>>,
}

/// A spec and what it said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    name: String,
    message: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.name, self.message)
    }
}

/// The judgement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Unexpected failures.
    pub(crate) failed: Vec<Told>,
    /// Expected failures.
    pub(crate) known: Vec<String>,
    /// Specs that are expected to fail, but passed, or are not there.
    pub(crate) fixed: Vec<String>,
    /// Specs that found that the cluster lacks what they need.
    pub(crate) skipped: Vec<Told>,
}

impl Outcome {
    /// Whether every spec passed that had to. On another host, those of the list may pass too.
    pub(crate) fn is_good(&self) -> bool {
        self.passed > 0 && self.failed.is_empty()
    }
}

/// Reads the list of known failures: the name of a spec on a line, then its reason on indented ones. `#` begins a comment.
pub(crate) fn read_known(text: &str) -> Result<Vec<Known>> {
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
        anyhow::bail!("no reason why this spec fails: {}", known.name);
    }
    Ok(all)
}

/// Reads ginkgo's report.
pub(crate) fn read_report(text: &str) -> Result<Vec<Spec>> {
    let suites: Vec<Suite> = serde_json::from_str(text).context("ginkgo's report")?;
    Ok(suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default()).collect())
}

/// Judges the specs. If not all were to run, known failures may be missing.
pub(crate) fn judge(specs: &[Spec], known: &[Known], is_complete: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for spec in specs {
        let name = spec.name();
        let message = || spec.failure.message.lines().next().unwrap_or_default().to_owned();
        match spec.state.as_str() {
            "passed" if spec.leaf_node_type == "It" => outcome.passed += 1,
            "passed" | "pending" => {}
            // Those that the filter leaves out have no message.
            "skipped" if spec.failure.message.is_empty() => {}
            "skipped" => outcome.skipped.push(Told { name, message: message() }),
            _ if known.iter().any(|known| known.name == name) => outcome.known.push(name),
            state => {
                let message = format!("{state}: {}", message());
                outcome.failed.push(Told { name, message });
            }
        }
    }
    let names = known.iter().map(|known| &known.name);
    let ran = |name: &String| specs.iter().any(|spec| spec.state == "passed" && spec.name() == *name);
    let fixed = names.filter(|name| !outcome.known.contains(name) && (is_complete || ran(name)));
    outcome.fixed = fixed.cloned().collect();
    outcome
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
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, state: &str, message: &str) -> Spec {
        let spec = json!({
            "ContainerHierarchyTexts": ["[sig-node] Pods"],
            "LeafNodeText": name,
            "LeafNodeType": "It",
            "State": state,
            "Failure": {"Message": message},
        });
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn failures_are_compared_with_the_known_ones() {
        let known =
            read_known("# why\n[sig-node] Pods b\n  the image\n  lacks it\n\n[sig-node] Pods d\n  x\n")
                .unwrap();
        assert_eq!(known[0].reason, "the image lacks it");
        let specs = [
            spec("a", "passed", ""),
            spec("b", "failed", "no"),
            spec("c", "timedout", "too late\nstack"),
            spec("d", "passed", ""),
            spec("e", "skipped", ""),
            spec("f", "skipped", "no GPU"),
        ];
        let outcome = judge(&specs, &known, true);
        let told = |name: &str, message: &str| Told {
            name: format!("[sig-node] Pods {name}"),
            message: message.to_owned(),
        };
        let expected = Outcome {
            passed: 2,
            failed: vec![told("c", "timedout: too late")],
            known: vec!["[sig-node] Pods b".to_owned()],
            fixed: vec!["[sig-node] Pods d".to_owned()],
            skipped: vec![told("f", "no GPU")],
        };
        assert_eq!(outcome, expected);
        assert!(!outcome.is_good());
        assert!(judge(&specs[..2], &known, true).is_good());
        // A part of them need not have the known ones.
        assert!(judge(&specs[..1], &known, false).fixed.is_empty());
        assert!(!judge(&[], &[], true).is_good());
    }

    #[test]
    fn a_failed_step_of_the_suite_is_a_failure() {
        let text = r#"[{"SpecReports": [{"ContainerHierarchyTexts": null, "LeafNodeText": "",
            "LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no nodes"}}]}]"#;
        let outcome = judge(&read_report(text).unwrap(), &[], true);
        assert_eq!(outcome.failed[0].to_string(), "[SynchronizedBeforeSuite]\n    failed: no nodes");
    }

    #[test]
    fn every_known_failure_has_a_reason() {
        assert!(read_known("a\nb\n  why\n").is_err());
        assert!(read_known("  why\n").is_err());
    }
}

//! Reports of ginkgo, compared with a list of known failures.

use serde_json::json;

use super::*;

fn report<const N: usize>(specs: [Spec; N]) -> SuiteReport {
    SuiteReport { spec_reports: Some(specs.into()), special_suite_failure_reasons: None }
}

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
        read_known("# why\n[sig-node] Pods b\n  the image\n  lacks it\n\n[sig-node] Pods d\n  x\n").unwrap();
    assert_eq!(known[0].reason, "the image lacks it");
    let outcome = judge(
        &report([
            spec("a", "passed", ""),
            spec("b", "failed", "no"),
            spec("c", "timedout", "too late\nstack"),
            spec("d", "passed", ""),
            spec("e", "skipped", ""),
            spec("f", "skipped", "no GPU"),
        ]),
        &known,
    );
    let said = |name: &str, message: &str| SpecMessage {
        name: format!("[sig-node] Pods {name}"),
        message: message.to_owned(),
    };
    let expected = Outcome {
        passed: 2,
        failed: vec![said("c", "timedout: too late")],
        known: vec!["[sig-node] Pods b".to_owned()],
        fixed: vec!["[sig-node] Pods d".to_owned()],
        struck: Vec::new(),
        skipped: vec![said("f", "no GPU")],
    };
    assert_eq!(outcome, expected);
    assert!(!outcome.is_good());
    assert!(judge(&report([spec("a", "passed", ""), spec("b", "failed", "no")]), &known).is_good());
    // One that was not to run is no news; one that is not there is.
    let left_out = report([spec("a", "passed", ""), spec("b", "skipped", "")]);
    assert_eq!(judge(&left_out, &known).fixed, ["[sig-node] Pods d"]);
    assert!(!judge(&SuiteReport::default(), &[]).is_good());
}

#[test]
fn what_hostlet_fails_on_purpose_must_fail() {
    let known = read_known("[sig-node] Pods a\n  by design: it waits\n[sig-node] Pods b\n  here: a kernel\n")
        .unwrap();
    assert!(known[0].is_by_design() && !known[1].is_by_design());
    assert!(known[0].concerns(Agent::Hostlet) && !known[0].concerns(Agent::Stock));
    assert!(known[1].concerns(Agent::Hostlet) && known[1].concerns(Agent::Stock));
    assert!(judge(&report([spec("a", "failed", "no"), spec("b", "passed", "")]), &known).is_good());
    let outcome = judge(&report([spec("a", "passed", ""), spec("b", "failed", "no")]), &known);
    assert_eq!(outcome.struck, ["[sig-node] Pods a"]);
    assert!(!outcome.is_good());
    // It may be left out.
    assert!(judge(&report([spec("c", "passed", "")]), &known).is_good());
}

#[test]
fn a_suite_whose_time_was_up_has_failed_whatever_its_specs_did() {
    let known = read_known("[sig-node] Pods a\n  a kernel\n").unwrap();
    let text = r#"[{"SpecReports": [
            {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "a", "LeafNodeType": "It", "State": "timedout"},
            {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "b", "LeafNodeType": "It", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "c", "LeafNodeType": "It", "State": "skipped"}],
            "SpecialSuiteFailureReasons": ["Suite Timeout Elapsed"]}]"#;
    let outcome = judge(&read_report(text).unwrap(), &known);
    assert_eq!(outcome.failed[0].to_string(), "the suite\n    Suite Timeout Elapsed");
    assert!(!outcome.is_good());
}

#[test]
fn a_failed_step_of_the_suite_is_a_failure() {
    let text = r#"[{"SpecReports": [{"ContainerHierarchyTexts": null, "LeafNodeText": "",
            "LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no nodes"}}]}]"#;
    let outcome = judge(&read_report(text).unwrap(), &[]);
    assert_eq!(outcome.failed[0].to_string(), "[SynchronizedBeforeSuite]\n    failed: no nodes");
}

#[test]
fn a_report_of_specs_that_ran_elsewhere_is_judged() {
    let directory = tempfile::tempdir().unwrap();
    let known = read_known("[sig-node] Pods b\n  here: a kernel\n").unwrap();
    let report = directory.path().to_owned();
    let options = Options { known, focus: None, skip: None, processes: 1, report, is_made: true };
    assert!(options.judge().unwrap_err().to_string().contains("made no report"));
    let write = |specs: [(&str, &str); 2]| {
        let specs = specs.map(|(name, state)| {
            json!({"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": name, "LeafNodeType": "It", "State": state})
        });
        fs::write(directory.path().join(REPORT), json!([{"SpecReports": specs}]).to_string()).unwrap();
    };
    write([("a", "passed"), ("b", "failed")]);
    options.judge().unwrap();
    write([("a", "failed"), ("b", "passed")]);
    options.judge().unwrap_err();
}

#[test]
fn every_known_failure_has_a_reason() {
    assert!(read_known("a\nb\n  why\n").is_err());
    assert!(read_known("  why\n").is_err());
}

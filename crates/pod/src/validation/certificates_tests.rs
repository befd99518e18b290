//! Trust anchors and certificates, right and wrong.

use serde_json::{Value, json};

use super::*;

fn of_bundles(source: Value) -> Vec<String> {
    let mut errors = Vec::new();
    check_bundles(&serde_json::from_value(source).unwrap(), &FieldPath::root("b"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn of_certificate(edit: Value) -> Vec<String> {
    let mut source = json!({"signerName": "example.com/s", "keyType": "ED25519", "keyPath": "key.pem"});
    for (field, value) in edit.as_object().unwrap() {
        source[field] = value.clone();
    }
    let mut errors = Vec::new();
    check_certificate(&serde_json::from_value(source).unwrap(), &FieldPath::root("c"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_begin(found: &[String], expected: &[&str]) {
    let are = found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
    assert!(are, "{found:#?}");
}

#[test]
fn bundles_are_selected_by_a_name_or_by_a_signer_and_labels() {
    let none: &[&str] = &[];
    assert_begin(&of_bundles(json!({"path": "ca", "name": "example.com:s:b"})), none);
    let expressions =
        json!([{"key": "k", "operator": "In", "values": ["a"]}, {"key": "l", "operator": "Exists"}]);
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": expressions});
    assert_begin(
        &of_bundles(json!({"path": "ca", "signerName": "example.com/s", "labelSelector": selector})),
        none,
    );
    let both = json!({"path": "ca", "name": "b", "signerName": "example.com/s"});
    assert_begin(
        &of_bundles(both),
        &["b: Invalid value: \"clusterTrustBundle\": only one of name and signerName may be used"],
    );
    assert_begin(
        &of_bundles(json!({"path": "/ca"})),
        &[
            "b: Required value: either name or signerName must be specified",
            "b.path: Invalid value: \"/ca\": must be a relative path",
        ],
    );
    assert_begin(
        &of_bundles(json!({"path": "ca", "name": "B", "labelSelector": {}})),
        &[
            "b.name: Invalid value: \"B\": not a valid clustertrustbundlename: ",
            "b.labelSelector: Invalid value: \"labelSelector\": labelSelector must be unset if name is specified",
        ],
    );
    let bad = json!({"matchExpressions": [{"key": "k", "operator": "In"}, {"key": "", "operator": "Has"}]});
    assert_begin(
        &of_bundles(json!({"path": "ca", "signerName": "s", "labelSelector": bad})),
        &[
            "b.signerName: Invalid value: \"s\": must be a fully qualified domain and path of the form",
            "b.labelSelector.matchExpressions[0].values: Required value",
            "b.labelSelector.matchExpressions[1].operator: Invalid value: \"Has\"",
            "b.labelSelector.matchExpressions[1].key: Invalid value: \"\"",
            "b.labelSelector.matchExpressions[1].key: Invalid value: \"\"",
        ],
    );
}

#[test]
fn a_certificate_has_a_signer_a_key_a_life_and_a_file() {
    assert_eq!(
        of_certificate(json!({"maxExpirationSeconds": 7_862_400, "userAnnotations": {"a.io/B": ""}})),
        [""; 0]
    );
    assert_begin(
        &of_certificate(json!({"signerName": "", "keyType": "RSA2048", "keyPath": ""})),
        &[
            "c.signerName: Required value",
            "c.keyType: Unsupported value: \"RSA2048\": supported values: ",
            "c: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        ],
    );
    let seconds = |signer: &str, seconds: i32| {
        of_certificate(json!({"signerName": signer, "maxExpirationSeconds": seconds}))
    };
    assert_begin(
        &seconds("example.com/s", 3599),
        &["c.maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"],
    );
    assert_begin(
        &seconds("kubernetes.io/s", 86_401),
        &["c.maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400"],
    );
    assert_begin(
        &of_certificate(json!({"signerName": "nodots/S", "userAnnotations": {"b": ""}})),
        &[
            "c.signerName: Invalid value: \"nodots\": should be a domain with at least two segments separated by dots",
            "c.signerName: Invalid value: \"S\": validating label \"S\": ",
            "c.userAnnotations: Invalid value: \"b\": must be a domain-prefixed key",
        ],
    );
}

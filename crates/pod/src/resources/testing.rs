//! Pods for the tests of this module.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A pod with this spec; images may be left out.
pub(super) fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}))
        .unwrap()
}

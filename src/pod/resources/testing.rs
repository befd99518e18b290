//! Pods for the tests of this folder.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A pod of this spec; images, which do not matter here, may be left out.
pub(super) fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}))
        .unwrap()
}

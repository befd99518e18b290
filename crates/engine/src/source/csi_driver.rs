//! CSIDriver objects in manifests, for a host without an API server: completed and validated as by the API server, as far as a kubelet
//! uses them. No I/O.

use std::sync::Arc;

use hostlet_base::names;
use hostlet_pod::objects::FileObject;
use hostlet_pod::validation::{FieldError, FieldPath};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};

/// Maximum bytes of a driver's name; upstream's constant.
const MAX_NAME: usize = 63;

/// Shortest `nodeAllocatableUpdatePeriodSeconds`; upstream's constant.
const MIN_PERIOD: i64 = 10;

const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];

/// The object with its defaults, and what is invalid in it.
pub(super) fn csi_driver(driver: CSIDriver) -> (FileObject, Vec<FieldError>) {
    let mut errors = Vec::new();
    let name = driver.metadata.name.unwrap_or_default();
    let path = FieldPath::root("metadata").child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else {
        if name.len() > MAX_NAME {
            errors.push(FieldError::too_long(&path, MAX_NAME));
        }
        for sentence in names::dns_subdomain(&name.to_lowercase()) {
            errors.push(FieldError::invalid(&path, &name, sentence));
        }
    }
    let spec = completed(driver.spec);
    check(&spec, &mut errors);
    (FileObject::CsiDriver(name, Arc::new(spec)), errors)
}

/// The spec with upstream's defaults.
fn completed(mut spec: CSIDriverSpec) -> CSIDriverSpec {
    spec.attach_required.get_or_insert(true);
    spec.pod_info_on_mount.get_or_insert(false);
    spec.fs_group_policy.get_or_insert_with(|| "ReadWriteOnceWithFSType".to_owned());
    spec.requires_republish.get_or_insert(false);
    spec.se_linux_mount.get_or_insert(false);
    if spec.volume_lifecycle_modes.as_ref().is_none_or(Vec::is_empty) {
        spec.volume_lifecycle_modes = Some(vec!["Persistent".to_owned()]);
    }
    spec
}

fn check(spec: &CSIDriverSpec, errors: &mut Vec<FieldError>) {
    let path = FieldPath::root("spec");
    if let Some(policy) = spec.fs_group_policy.as_deref().filter(|policy| !FS_GROUP_POLICIES.contains(policy))
    {
        errors.push(FieldError::unsupported(&path.child("fsGroupPolicy"), policy, &FS_GROUP_POLICIES));
    }
    for mode in spec.volume_lifecycle_modes.iter().flatten() {
        if !LIFECYCLE_MODES.contains(&mode.as_str()) {
            errors.push(FieldError::unsupported(&path.child("volumeLifecycleModes"), mode, &LIFECYCLE_MODES));
        }
    }
    if let Some(period) = spec.node_allocatable_update_period_seconds.filter(|period| *period < MIN_PERIOD) {
        let path = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(FieldError::invalid(&path, period, "must be greater than or equal to 10 seconds"));
    }
    let has_requests = spec.token_requests.as_ref().is_some_and(|requests| !requests.is_empty());
    if has_requests {
        let remedy =
            "there is no API server that issues tokens; remove the field if the driver can do without";
        errors.push(FieldError::forbidden(&path.child("tokenRequests"), remedy));
    } else if let Some(in_secrets) = spec.service_account_token_in_secrets {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), in_secrets, detail));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::source::context::{FileAccess, ManifestContext};
    use crate::source::manifest::read_manifest;

    fn read(name: &str, spec: &Value) -> Result<(String, CSIDriverSpec), String> {
        let object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": name}, "spec": spec});
        let file = Path::new("/m/x.yaml");
        let context = ManifestContext { file, access: FileAccess::Shared, node_name: "n", is_alone: true };
        let read = read_manifest(object.to_string().as_bytes(), &context, Timestamp::UNIX_EPOCH);
        let manifest = read.map_err(|error| error.to_string())?;
        let FileObject::CsiDriver(name, spec) = &manifest.objects[0] else { panic!() };
        Ok((name.clone(), (**spec).clone()))
    }

    #[test]
    fn a_driver_has_the_api_servers_defaults() {
        let (name, spec) = read("nfs.csi.k8s.io", &json!({"attachRequired": false})).unwrap();
        assert_eq!((name.as_str(), spec.attach_required), ("nfs.csi.k8s.io", Some(false)));
        assert_eq!(spec.fs_group_policy.as_deref(), Some("ReadWriteOnceWithFSType"));
        assert_eq!(spec.volume_lifecycle_modes.as_deref(), Some(&["Persistent".to_owned()][..]));
        assert_eq!(read("nfs.csi.k8s.io", &json!({})).unwrap().1.attach_required, Some(true));
    }

    #[test]
    fn an_invalid_driver_says_what_to_change() {
        for (name, spec, expected) in [
            ("", json!({}), "metadata.name: Required"),
            ("a_b", json!({}), "metadata.name: Invalid value: \"a_b\""),
            (&*"a".repeat(64), json!({}), "metadata.name: Too long"),
            ("a", json!({"fsGroupPolicy": "file"}), "spec.fsGroupPolicy: Unsupported value: \"file\""),
            ("a", json!({"volumeLifecycleModes": ["x"]}), "spec.volumeLifecycleModes: Unsupported value"),
            ("a", json!({"nodeAllocatableUpdatePeriodSeconds": 9}), "greater than or equal to 10 seconds"),
            (
                "a",
                json!({"tokenRequests": [{"audience": ""}]}),
                "spec.tokenRequests: Forbidden: there is no API server",
            ),
            ("a", json!({"serviceAccountTokenInSecrets": true}), "but no tokenRequests are specified"),
            ("a", json!({"attachRequire": false}), "did you mean \"attachRequired\"?"),
        ] {
            let error = read(name, &spec).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

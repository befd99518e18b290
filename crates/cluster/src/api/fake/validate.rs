//! Validates a pod's status and ResourceSlices like an API server, as far as a kubelet can violate it (upstream
//! `ValidatePodStatusUpdate`, `ValidateResourceSlice`).

use std::net::IpAddr;

use hostlet_base::names::dns_label;
use serde_json::{Value, json};

use super::objects::RejectedRequest;

/// Normalizes an updated pod as the server does, or returns why it is rejected. `old` is the stored pod.
pub(super) fn pod_status(old: &Value, new: &mut Value) -> Result<(), RejectedRequest> {
    let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let reject = |field: &str, what: &str| -> Result<(), RejectedRequest> {
        Err((422, "Invalid", format!("Pod \"{name}\" is invalid: status.{field}: {what}")))
    };
    let before = &old["status"];
    let status = &mut new["status"];
    // The single address wins, for old kubelets that do not know the list.
    if status["podIP"].is_string()
        && status["podIPs"][0]["ip"].is_string()
        && status["podIP"] != status["podIPs"][0]["ip"]
    {
        status["podIPs"] = json!([{"ip": status["podIP"]}]);
    }
    for field in ["podIPs", "hostIPs"] {
        if has_two_of_a_family(&status[field]) {
            let what = format!(
                "Invalid value: {}: may specify no more than one IP for each IP family",
                status[field]
            );
            return reject(field, &what);
        }
    }
    if status["hostIPs"][0]["ip"].is_string() && status["hostIPs"][0]["ip"] != status["hostIP"] {
        return reject("hostIPs[0].ip", "Invalid value: must be equal to `hostIP`");
    }
    if !before["qosClass"].is_null() && before["qosClass"] != status["qosClass"] {
        return reject("qosClass", "Invalid value: field is immutable");
    }
    if let Some(index) = revived(old["spec"]["restartPolicy"].as_str(), before, status) {
        let field = format!("containerStatuses[{index}].state");
        return reject(&field, "Forbidden: may not be transitioned to non-terminated state");
    }
    Ok(())
}

fn has_two_of_a_family(ips: &Value) -> bool {
    let ips = ips.as_array().map(Vec::as_slice).unwrap_or_default();
    let families: Vec<bool> = ips
        .iter()
        .filter_map(|item| item["ip"].as_str()?.parse::<IpAddr>().ok())
        .map(|ip| ip.is_ipv6())
        .collect();
    families.iter().enumerate().any(|(at, family)| families[..at].contains(family))
}

/// The index of a container that terminated and may not restart, but is reported as not terminated.
fn revived(restart_policy: Option<&str>, before: &Value, now: &Value) -> Option<usize> {
    let statuses = now["containerStatuses"].as_array()?;
    let is_final = |name: &Value| {
        let old = before["containerStatuses"].as_array()?.iter().find(|old| old["name"] == *name)?;
        let code = old["state"]["terminated"].get("exitCode")?.as_i64()?;
        Some(match restart_policy {
            Some("Never") => true,
            Some("OnFailure") => code == 0,
            _ => false,
        })
    };
    statuses.iter().position(|status| {
        status["state"]["terminated"].is_null() && is_final(&status["name"]).unwrap_or(false)
    })
}

/// Drops lists of a ResourceSlice's attributes if they are not stored, as the server does, or returns why the slice is rejected.
pub(super) fn resource_slice(
    old: Option<&Value>,
    new: &mut Value,
    stores_lists: bool,
) -> Result<(), RejectedRequest> {
    let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let reject = |field: &str, what: &str| -> Result<(), RejectedRequest> {
        Err((
            422,
            "Invalid",
            format!("ResourceSlice.resource.k8s.io \"{name}\" is invalid: spec.{field}: {what}"),
        ))
    };
    for pointer in ["/spec/driver", "/spec/nodeName", "/spec/pool/name"] {
        if old.is_some_and(|old| old.pointer(pointer) != new.pointer(pointer)) {
            return reject(pointer, "field is immutable");
        }
    }
    if new["spec"]["pool"]["resourceSliceCount"].as_i64().is_none_or(|count| count <= 0) {
        return reject("pool.resourceSliceCount", "must be greater than zero");
    }
    let devices = new["spec"]["devices"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    let mut names = std::collections::HashSet::new();
    let mut has_lists = false;
    for device in devices.iter_mut() {
        if device["name"].as_str().is_none_or(|name| !dns_label(name).is_empty()) {
            return reject("devices.name", "must be a DNS label");
        }
        if !names.insert(device["name"].clone()) {
            return reject("devices", "Duplicate value");
        }
        let fields = if device["basic"].is_object() { &mut device["basic"] } else { device };
        let mut entries = fields["capacity"].as_object().map_or(0, |capacity| capacity.len());
        for (key, attribute) in fields["attributes"].as_object_mut().into_iter().flatten() {
            entries += 1;
            let Some(attribute) = attribute.as_object_mut() else {
                return reject("attributes", "not an object");
            };
            if !stores_lists {
                attribute.retain(|field, _| !["bools", "ints", "strings", "versions"].contains(&&**field));
            }
            has_lists |= attribute.values().any(Value::is_array);
            if attribute.len() != 1 {
                return reject(&format!("attributes[{key}]"), "exactly one value must be specified");
            }
            if attribute.values().any(|value| value.as_str().is_some_and(|text| text.len() > 64)) {
                return reject(&format!("attributes[{key}]"), "may not be more than 64 bytes");
            }
            let identifier = key.rsplit('/').next().unwrap_or_default();
            let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !(1..=32).contains(&identifier.len()) || !identifier.chars().all(is_legal) {
                return reject(&format!("attributes[{key}]"), "a valid C identifier must start with");
            }
        }
        if entries > 32 {
            return reject("devices", "the total number of attributes and capacities must not exceed 32");
        }
    }
    if names.len() > if has_lists { 64 } else { 128 } {
        return reject("devices", "Too many");
    }
    Ok(())
}

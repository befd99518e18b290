//! Validates a pod's status like an API server, as far as a kubelet can violate it (upstream `ValidatePodStatusUpdate`).

use std::net::IpAddr;

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

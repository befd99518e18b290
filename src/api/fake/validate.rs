//! What an API server refuses of a pod's status, as far as a kubelet can be wrong there (upstream `ValidatePodStatusUpdate`).

use std::net::IpAddr;

use serde_json::{Value, json};

use super::objects::Refused;

/// Makes of a pod what a server stores, or says why it refuses it; `old` is the pod as it was.
pub(super) fn pod_status(old: &Value, new: &mut Value) -> Result<(), Refused> {
    let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let refuse = |field: &str, what: &str| -> Result<(), Refused> {
        Err((422, "Invalid", format!("Pod \"{name}\" is invalid: status.{field}: {what}")))
    };
    let before = &old["status"];
    let status = &mut new["status"];
    // The single address wins, for kubelets that know no other.
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
            return refuse(field, &what);
        }
    }
    if status["hostIPs"][0]["ip"].is_string() && status["hostIPs"][0]["ip"] != status["hostIP"] {
        return refuse("hostIPs[0].ip", "Invalid value: must be equal to `hostIP`");
    }
    if !before["qosClass"].is_null() && before["qosClass"] != status["qosClass"] {
        return refuse("qosClass", "Invalid value: field is immutable");
    }
    if let Some(index) = revived(old["spec"]["restartPolicy"].as_str(), before, status) {
        let field = format!("containerStatuses[{index}].state");
        return refuse(&field, "Forbidden: may not be transitioned to non-terminated state");
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

/// A container that ended for good and is said to be alive.
fn revived(restart_policy: Option<&str>, before: &Value, now: &Value) -> Option<usize> {
    let statuses = now["containerStatuses"].as_array()?;
    let ended_for_good = |name: &Value| {
        let old = before["containerStatuses"].as_array()?.iter().find(|old| old["name"] == *name)?;
        let code = old["state"]["terminated"].get("exitCode")?.as_i64()?;
        Some(match restart_policy {
            Some("Never") => true,
            Some("OnFailure") => code == 0,
            _ => false,
        })
    };
    statuses.iter().position(|status| {
        status["state"]["terminated"].is_null() && ended_for_good(&status["name"]).unwrap_or(false)
    })
}

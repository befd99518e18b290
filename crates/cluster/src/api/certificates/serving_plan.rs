//! What to do about the certificate of the node's API. Pure.

use std::net::IpAddr;

use hostlet_net::tls::{AlternativeNames, CertificateInfo};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::plan::renewal;

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServingStep {
    /// Wait for a change, or until then.
    Wait(Option<Timestamp>),
    /// Request a certificate for these names.
    Request(AlternativeNames),
}

/// The step at `now`, for a node with this current certificate and these names. As upstream, a certificate is requested once the node has
/// an address, if there is none, if the current one lacks a name, or if it is renewed now. `draw`: see [`renewal`].
pub(super) fn plan(
    current: Option<&CertificateInfo>,
    names: &AlternativeNames,
    draw: f64,
    now: Timestamp,
) -> ServingStep {
    if names.addresses.is_empty() {
        return ServingStep::Wait(None);
    }
    match current.map(|current| (current.names.contains(names), renewal(current, draw))) {
        Some((true, due)) if due > now => ServingStep::Wait(Some(due)),
        Some(_) | None => ServingStep::Request(names.clone()),
    }
}

/// The names and addresses in a Node's status.
pub(super) fn names_of(node: &Node) -> AlternativeNames {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let mut names = AlternativeNames::default();
    for address in addresses.filter(|address| !address.address.is_empty()) {
        let text = &address.address;
        match (address.type_.as_str(), text.parse::<IpAddr>()) {
            ("Hostname" | "ExternalIP" | "InternalIP", Ok(ip)) => {
                names.addresses.insert(ip);
            }
            ("Hostname", Err(_)) | ("ExternalDNS" | "InternalDNS", _) => {
                names.names.insert(text.clone());
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn with(node: serde_json::Value) -> AlternativeNames {
        names_of(&serde_json::from_value(json!({"status": {"addresses": node}})).unwrap())
    }

    #[test]
    fn the_names_are_the_addresses_of_the_node_each_once() {
        let found = with(json!([
            {"type": "InternalIP", "address": "10.0.0.2"},
            {"type": "InternalIP", "address": "fd00::2"},
            {"type": "InternalIP", "address": "no.address"},
            {"type": "ExternalIP", "address": "10.0.0.2"},
            {"type": "Hostname", "address": "host1"},
            {"type": "Hostname", "address": "10.0.0.3"},
            {"type": "InternalDNS", "address": "host1.internal"},
            {"type": "ExternalDNS", "address": ""},
            {"type": "Other", "address": "other"},
        ]));
        assert_eq!(Vec::from_iter(&found.names), ["host1", "host1.internal"]);
        let addresses: Vec<String> = found.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["10.0.0.2", "10.0.0.3", "fd00::2"]);
        assert!(names_of(&Node::default()).is_empty());
    }

    #[test]
    fn each_state_has_its_step() {
        let start: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let address = |text: &str| json!({"type": "InternalIP", "address": text});
        let (one, two) =
            (with(json!([address("10.0.0.1")])), with(json!([address("10.0.0.1"), address("10.0.0.2")])));
        let of = |names: &AlternativeNames| {
            CertificateInfo::of_times(start, start + 10 * HOUR).with_names(names.clone())
        };
        let request = |names: &AlternativeNames| ServingStep::Request(names.clone());
        let host = with(json!([{"type": "Hostname", "address": "host1"}]));
        let (early, late) = (start + HOUR, start + 9 * HOUR);
        let due = ServingStep::Wait(Some(start + 8 * HOUR));
        for (current, names, now, expected) in [
            (None, &host, early, ServingStep::Wait(None)),
            (Some(of(&one)), &AlternativeNames::default(), late, ServingStep::Wait(None)),
            (None, &one, early, request(&one)),
            (Some(of(&one)), &one, early, due.clone()),
            (Some(of(&two)), &one, early, due),
            (Some(of(&one)), &two, early, request(&two)),
            (Some(of(&one)), &one, late, request(&one)),
            (Some(of(&one)), &one, start + 99 * HOUR, request(&one)),
        ] {
            assert_eq!(plan(current.as_ref(), names, 0.5, now), expected, "{current:?} {names:?} {now}");
        }
    }
}

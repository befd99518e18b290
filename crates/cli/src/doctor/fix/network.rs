//! A network configuration for pods of one host: a bridge with addresses of a free subnet. Pure.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::json;

use crate::doctor::facts::NetworkFacts;

/// The subnets that are tried: the usual one of pods, then others of private use (RFC 1918).
const SUBNETS: [(u32, u8); 4] = [(0x0af4_0000, 16), (0x0af5_0000, 16), (0xac1e_0000, 16), (0xc0a8_e800, 21)];

/// The configuration and its subnet; `None` without the plugins, or if the host's routes leave no subnet free.
pub(super) fn bridge(plugins: &BTreeSet<String>, routes: &[(u32, u8)]) -> Option<(String, String)> {
    if !NetworkFacts::BRIDGE.iter().all(|plugin| plugins.contains(*plugin)) {
        return None;
    }
    let overlaps = |a: (u32, u8), b: (u32, u8)| {
        let shorter = u32::from(a.1.min(b.1));
        let mask = u32::MAX.checked_shl(32 - shorter).unwrap_or(0);
        a.0 & mask == b.0 & mask
    };
    let free = SUBNETS.into_iter().find(|subnet| !routes.iter().any(|route| overlaps(*subnet, *route)))?;
    let subnet = format!("{}/{}", Ipv4Addr::from(free.0), free.1);
    let mut chain = vec![json!({
        "type": "bridge",
        "bridge": "hostlet0",
        "isGateway": true,
        "ipMasq": true,
        "hairpinMode": true,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    })];
    // For hostPort.
    if plugins.contains("portmap") {
        chain.push(json!({"type": "portmap", "capabilities": {"portMappings": true}}));
    }
    let list = json!({"cniVersion": "0.4.0", "name": "hostlet", "plugins": chain});
    Some((format!("{list:#}\n"), subnet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_subnet_is_chosen() {
        let plugins: BTreeSet<String> = NetworkFacts::BRIDGE.map(str::to_owned).into();
        let subnet = |routes: &[(u32, u8)]| bridge(&plugins, routes).map(|(_, subnet)| subnet);
        assert_eq!(subnet(&[]).as_deref(), Some("10.244.0.0/16"));
        // A route inside, the same, and one around both of the first.
        for (routes, expected) in [
            (&[(0x0af4_0100, 24)][..], Some("10.245.0.0/16")),
            (&[(0x0af4_0000, 16)], Some("10.245.0.0/16")),
            (&[(0x0a00_0000, 8)], Some("172.30.0.0/16")),
            (&[(0x0a00_0000, 8), (0xac10_0000, 12), (0xc0a8_0000, 16)], None),
            (&[(0xc0a8_0100, 24)], Some("10.244.0.0/16")),
        ] {
            assert_eq!(subnet(routes).as_deref(), expected, "{routes:x?}");
        }
    }

    #[test]
    fn only_installed_plugins_are_used() {
        let mut plugins: BTreeSet<String> = NetworkFacts::BRIDGE.map(str::to_owned).into();
        let (text, _) = bridge(&plugins, &[]).unwrap();
        assert!(!text.contains("portmap") && text.contains("\"bridge\": \"hostlet0\""), "{text}");
        plugins.insert("portmap".to_owned());
        assert!(bridge(&plugins, &[]).unwrap().0.contains("portMappings"));
        plugins.remove("bridge");
        assert_eq!(bridge(&plugins, &[]), None);
    }
}

//! The node's addresses when nobody tells them: the ones packets to the world would leave with.

use std::net::{IpAddr, Ipv4Addr};

use crate::sys::outgoing_ips;

/// Addresses of this host, at most one of each family, IPv4 first; loopback when there is no route anywhere.
pub(super) fn node_ips() -> Vec<IpAddr> {
    let found = outgoing_ips();
    if found.is_empty() { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_an_address() {
        assert!(!node_ips().is_empty());
    }
}

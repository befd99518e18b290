//! The node's address when nobody tells it: the one packets to the world would leave with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// An address of documentation (RFC 5737, RFC 3849): no packet is sent to it, the kernel only picks a route.
const SOMEWHERE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SOMEWHERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Addresses of this host, at most one of each family, IPv4 first; loopback when there is no route anywhere.
pub(super) fn node_ips() -> Vec<IpAddr> {
    let v4 = outgoing(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SOMEWHERE_V4);
    let v6 = outgoing(IpAddr::V6(Ipv6Addr::UNSPECIFIED), SOMEWHERE_V6);
    let found: Vec<IpAddr> = v4.into_iter().chain(v6).collect();
    if found.is_empty() { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { found }
}

fn outgoing(from: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(SocketAddr::new(from, 0)).ok()?;
    // Connecting a datagram socket sends nothing.
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified() && !ip.is_loopback()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_an_address_and_one_of_a_family() {
        let ips = node_ips();
        assert!(!ips.is_empty());
        assert!(ips.iter().filter(|ip| ip.is_ipv4()).count() <= 1);
        assert!(ips.iter().filter(|ip| ip.is_ipv6()).count() <= 1);
    }
}

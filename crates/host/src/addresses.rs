//! The host's addresses. Sends nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Documentation addresses (RFC 5737, RFC 3849): no packet is sent, the kernel only selects a route.
const SOMEWHERE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SOMEWHERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// The source addresses of the default routes, at most one per family, IPv4 first.
pub fn outgoing_ips() -> Vec<IpAddr> {
    let v4 = outgoing(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SOMEWHERE_V4);
    let v6 = outgoing(IpAddr::V6(Ipv6Addr::UNSPECIFIED), SOMEWHERE_V6);
    v4.into_iter().chain(v6).collect()
}

/// Whether an interface of this host has this address, which is required to bind a socket to it.
pub fn is_own_ip(ip: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
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
    fn there_is_at_most_one_per_family() {
        let ips = outgoing_ips();
        assert!(ips.iter().filter(|ip| ip.is_ipv4()).count() <= 1);
        assert!(ips.iter().filter(|ip| ip.is_ipv6()).count() <= 1);
        assert!(ips.iter().all(|ip| is_own_ip(*ip)));
    }

    #[test]
    fn documentation_addresses_are_not_local() {
        assert!(is_own_ip(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(!is_own_ip(SOMEWHERE_V4));
    }
}

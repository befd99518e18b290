//! Kernel notifications of changed addresses or routes. Only hints: they do not say what changed, and may be lost.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram as StdDatagram;

use nix::sys::socket::{AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket};
use tokio::net::UnixDatagram;

/// Groups of rtnetlink(7): addresses and routes of both families.
const GROUPS: i32 =
    libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_IFADDR | libc::RTMGRP_IPV6_ROUTE;

/// A subscription. No library has a type for netlink sockets, but receiving a datagram is the same call for all kinds.
#[derive(Debug)]
pub struct AddressChanges(UnixDatagram);

impl AddressChanges {
    /// Subscribes from now on.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS.cast_unsigned()))?;
        Ok(Self(UnixDatagram::from_std(StdDatagram::from(socket))?))
    }

    /// Waits for a change; several changes may be merged. Cancel-safe.
    pub async fn next(&self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        match self.0.recv(&mut buffer).await {
            Ok(_) => {}
            // The buffer overflowed, which means that something changed.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error),
        }
        while self.0.try_recv(&mut buffer).is_ok() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn earlier_changes_are_not_reported() {
        let changes = AddressChanges::open().unwrap();
        // Other processes may change addresses; this only checks that reading works.
        let mut buffer = [0; 4096];
        let read = changes.0.try_recv(&mut buffer);
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    }
}

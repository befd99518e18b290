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
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::testing::skipped;

    /// Adds an address in the network namespace of this thread.
    fn add_address(address: &str) {
        let added = Command::new("ip").args(["address", "add", address, "dev", "lo"]).status().unwrap();
        assert!(added.success());
    }

    fn in_network_namespace(test: impl FnOnce() + Send + 'static) {
        let run = || match unshare(CloneFlags::CLONE_NEWNET) {
            Ok(()) => test(),
            Err(errno) => skipped(&format!("needs root ({errno})")),
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn changes_are_reported_from_the_subscription_on() {
        in_network_namespace(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                add_address("192.0.2.1/32");
                let changes = AddressChanges::open().unwrap();
                let earlier = changes.0.try_recv(&mut [0; 4096]).unwrap_err();
                assert_eq!(earlier.kind(), io::ErrorKind::WouldBlock);
                add_address("192.0.2.2/32");
                changes.next().await.unwrap();
                let merged = changes.0.try_recv(&mut [0; 4096]).unwrap_err();
                assert_eq!(merged.kind(), io::ErrorKind::WouldBlock);
            });
        });
    }
}

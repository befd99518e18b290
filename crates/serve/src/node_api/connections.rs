//! Which connections a port has, and which one makes room for the next when it has as many as it may. Pure.
//!
//! Whoever reaches the port can open connections. As long as nobody's credentials let in a request on a connection, it is a stranger's,
//! and gives way: the oldest of the address that holds most. So somebody who fills the port only closes their own connections, also where
//! no credentials are needed.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bits of an IPv6 address that its holder usually chooses.
const INTERFACE_BITS: u32 = 64;

/// Whether somebody's credentials let in a request on a connection. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct LetIn(Arc<AtomicBool>);

impl LetIn {
    /// Somebody was let in.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody was.
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a connection comes from: one address, or the network of an IPv6 address, whose holder has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> INTERFACE_BITS << INTERFACE_BITS).into(),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An open connection.
#[derive(Debug)]
struct Connection<H> {
    source: Source,
    let_in: LetIn,
    handle: H,
}

/// The open connections, each with a handle for closing it, in the order of their arrival.
#[derive(Debug)]
pub(super) struct Connections<H> {
    open: BTreeMap<u64, Connection<H>>,
    next: u64,
    most: usize,
}

impl<H> Connections<H> {
    /// At most this many.
    pub(super) fn new(most: usize) -> Self {
        Self { open: BTreeMap::new(), next: 0, most }
    }

    /// Whether there is room for another one, or somebody to make it.
    pub(super) fn may_accept(&self) -> bool {
        self.open.len() < self.most || self.open.values().any(|connection| !connection.let_in.get())
    }

    /// Adds a connection. Returns its number.
    pub(super) fn add(&mut self, source: Source, let_in: LetIn, handle: H) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, Connection { source, let_in, handle });
        number
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Takes out the connection that has to make room for the next one, if there is none.
    pub(super) fn make_room(&mut self) -> Option<H> {
        if self.open.len() < self.most {
            return None;
        }
        let strangers = || self.open.iter().filter(|(_, connection)| !connection.let_in.get());
        let mut held: HashMap<Source, usize> = HashMap::new();
        strangers().for_each(|(_, connection)| *held.entry(connection.source).or_default() += 1);
        // The first one of several with as many.
        let (number, _) = strangers().rev().max_by_key(|(_, connection)| held[&connection.source])?;
        let number = *number;
        self.open.remove(&number).map(|connection| connection.handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(ip: &str) -> Source {
        ip.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn the_oldest_stranger_of_the_address_with_most_makes_room() {
        let mut connections = Connections::new(5);
        let friend = LetIn::default();
        friend.set();
        for (ip, let_in, handle) in [
            ("10.0.0.9", friend.clone(), "friend"),
            ("10.0.0.1", LetIn::default(), "other"),
            ("10.0.0.2", LetIn::default(), "first"),
            ("10.0.0.2", LetIn::default(), "second"),
        ] {
            assert_eq!(connections.make_room(), None);
            connections.add(source(ip), let_in, handle);
        }
        connections.add(source("10.0.0.2"), friend.clone(), "let in later");
        let mut closed = Vec::new();
        while connections.may_accept() {
            closed.extend(connections.make_room());
            connections.add(source("10.0.0.3"), friend.clone(), "new");
        }
        assert_eq!(closed, ["first", "other", "second"]);
        assert_eq!(connections.make_room(), None);
        connections.remove(0);
        assert!(connections.may_accept() && connections.make_room().is_none());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }
}

//! The rules of `NO_PROXY`, as Go has them (`golang.org/x/net/http/httpproxy`): names, addresses and ranges that are reached
//! without a proxy. Pure.

use std::net::IpAddr;

/// A parsed `NO_PROXY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NoProxy {
    /// It has the entry `*`.
    everything: bool,
    ranges: Vec<(IpAddr, u8)>,
    addresses: Vec<(IpAddr, Option<String>)>,
    domains: Vec<Domain>,
}

/// A domain: its subdomains and, unless it was written with a dot in front, the name itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Domain {
    name: String,
    subdomains_only: bool,
    port: Option<String>,
}

impl NoProxy {
    /// Parses the variable. Entries without a host are skipped, as in Go.
    pub(super) fn parse(text: &str) -> Self {
        let mut rules = Self::default();
        for entry in text.split(',').map(|entry| entry.trim().to_lowercase()) {
            if entry == "*" {
                return Self { everything: true, ..Self::default() };
            }
            rules.add(&entry);
        }
        rules
    }

    fn add(&mut self, entry: &str) {
        if let Some(range) = range(entry) {
            self.ranges.push(range);
            return;
        }
        let (host, port) = split_port(entry);
        if let Ok(address) = host.parse() {
            self.addresses.push((address, port));
            return;
        }
        let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        let (name, subdomains_only) = host.strip_prefix('.').map_or((host, false), |rest| (rest, true));
        if !name.is_empty() {
            self.domains.push(Domain { name: name.to_owned(), subdomains_only, port });
        }
    }

    /// Whether a host with this port is reached without a proxy. Loopback always is.
    pub(super) fn matches(&self, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
        let port = port.to_string();
        let has_port = |listed: &Option<String>| listed.as_ref().is_none_or(|listed| *listed == port);
        if host == "localhost" || self.everything {
            return true;
        }
        match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            Ok(address) => {
                address.is_loopback()
                    || self.ranges.iter().any(|(start, bits)| is_within(address, *start, *bits))
                    || self
                        .addresses
                        .iter()
                        .any(|(own, port)| own.to_canonical() == address && has_port(port))
            }
            Err(_) => self.domains.iter().any(|domain| {
                let below = host.strip_suffix(&domain.name).is_some_and(|rest| rest.ends_with('.'));
                (below || (host == domain.name && !domain.subdomains_only)) && has_port(&domain.port)
            }),
        }
    }
}

/// An address range `10.0.0.0/8`.
fn range(entry: &str) -> Option<(IpAddr, u8)> {
    let (start, bits) = entry.split_once('/')?;
    let (start, bits): (IpAddr, u8) = (start.parse().ok()?, bits.parse().ok()?);
    let most = if start.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((start, bits))
}

/// Host and port of `host:port` or `[address]:port`. A bare IPv6 address has no port.
fn split_port(entry: &str) -> (&str, Option<String>) {
    let split = match entry.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").or_else(|| Some((rest.strip_suffix(']')?, ""))),
        None => entry.split_once(':').filter(|(_, port)| !port.contains(':')),
    };
    match split {
        Some((host, port)) => (host, Some(port.to_owned()).filter(|port| !port.is_empty())),
        None => (entry, None),
    }
}

fn is_within(address: IpAddr, start: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let shift = width.saturating_sub(bits.into());
        a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
    };
    match (address, start) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::NoProxy;

    #[test]
    fn the_rules_are_gos() {
        for (no_proxy, host, port, is_direct) in [
            // Loopback, without any entry.
            ("", "localhost", 6443, true),
            ("", "127.0.0.2", 6443, true),
            ("", "[::1]", 6443, true),
            ("", "::ffff:127.0.0.1", 6443, true),
            ("", "10.0.0.1", 6443, false),
            ("", "localhost.example.com", 6443, false),
            ("*", "anything.example.com", 6443, true),
            ("a, *", "10.0.0.1", 6443, true),
            // Names.
            ("example.com", "example.com", 6443, true),
            ("example.com", "api.example.com", 6443, true),
            ("Example.COM", "API.example.com", 6443, true),
            ("example.com", "notexample.com", 6443, false),
            (".example.com", "example.com", 6443, false),
            (".example.com", "api.example.com", 6443, true),
            ("*.example.com", "example.com", 6443, false),
            ("*.example.com", "a.b.example.com", 6443, true),
            ("example.com:6443", "example.com", 6443, true),
            ("example.com:6443", "api.example.com", 443, false),
            // Addresses.
            ("10.0.0.1", "10.0.0.1", 6443, true),
            ("10.0.0.1", "10.0.0.10", 6443, false),
            ("10.0.0.1:6443", "10.0.0.1", 6443, true),
            ("10.0.0.1:6443", "10.0.0.1", 443, false),
            ("fd00::1", "[fd00::1]", 6443, true),
            ("[fd00::1]:6443", "fd00::1", 6443, true),
            ("[fd00::1]:6443", "fd00::1", 443, false),
            // Ranges.
            ("10.0.0.0/8", "10.255.0.1", 6443, true),
            ("10.1.2.3/8", "10.255.0.1", 6443, true),
            ("10.0.0.0/8", "11.0.0.1", 6443, false),
            ("0.0.0.0/0", "8.8.8.8", 6443, true),
            ("fd00::/8", "fd12::1", 6443, true),
            ("fd00::/8", "fe80::1", 6443, false),
            ("10.0.0.0/8", "api.example.com", 6443, false),
            // Skipped entries.
            (" , :80,10.0.0.0/33", "10.0.0.1", 6443, false),
            ("other, example.com ,", "example.com", 6443, true),
        ] {
            assert_eq!(NoProxy::parse(no_proxy).matches(host, port), is_direct, "{no_proxy:?} {host}:{port}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[a1.:/*,\\[\\]]*", host in "\\PC*|[a1.:\\[\\]]*") {
            let _ = NoProxy::parse(&text).matches(&host, 1);
        }
    }
}

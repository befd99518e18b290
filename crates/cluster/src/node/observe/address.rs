//! Chooses the node's addresses, in upstream's order. Pure.

use std::net::IpAddr;

/// Why no address can be reported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    /// A configured address cannot be used.
    #[error("--node-ip {ip} {what}; give an address of a network interface of this host")]
    Unfit {
        ip: IpAddr,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No address was configured, and none was found.
    #[error("cannot find an address of this node: no route leads out of this host; give one with --node-ip")]
    NotFound,
}

/// The candidates for the node's addresses.
pub(super) struct KnownAddresses<'a> {
    /// Configured addresses (`--node-ip`).
    pub(super) given: &'a [IpAddr],
    /// The addresses that DNS has for the node's name, in its order.
    pub(super) by_name: &'a [IpAddr],
    /// Source addresses of the default routes, at most one per family.
    pub(super) outgoing: &'a [IpAddr],
    /// Whether an address is assigned to this host.
    pub(super) is_own: &'a dyn Fn(IpAddr) -> bool,
}

/// Whether no configured address can be reported as it is, so that the name has to be resolved.
pub(super) fn needs_lookup(given: &[IpAddr], name: &str) -> bool {
    given.first().is_none_or(IpAddr::is_unspecified) && name.parse::<IpAddr>().is_err()
}

/// The addresses to report, primary first: the configured ones; the name, if it is an address; the one that DNS has for the
/// name, if it is assigned to this host; the one of the default route. An unspecified configured address selects its family.
pub(super) fn choose(name: &str, known: &KnownAddresses<'_>) -> Result<Vec<IpAddr>, AddressError> {
    let specified: Vec<IpAddr> = known.given.iter().copied().filter(|ip| !ip.is_unspecified()).collect();
    for ip in &specified {
        if let Some(what) = unfit(*ip, known.is_own) {
            return Err(AddressError::Unfit { ip: *ip, what });
        }
    }
    match (known.given.first(), &specified[..]) {
        (_, [_, _, ..]) => return Ok(specified),
        (Some(first), _) if !first.is_unspecified() => return Ok(vec![*first]),
        (Some(_) | None, _) => {}
    }
    if let Ok(ip) = name.parse() {
        return Ok(vec![ip]);
    }
    let wants_v6 = known.given.first().is_some_and(IpAddr::is_ipv6);
    let preferred =
        |ips: Vec<IpAddr>| ips.iter().copied().find(|ip| ip.is_ipv6() == wants_v6).or(ips.first().copied());
    let named = known.by_name.iter().copied().filter(|ip| unfit(*ip, known.is_own).is_none()).collect();
    let found = preferred(named).or_else(|| preferred(known.outgoing.to_vec()));
    found.map(|ip| vec![ip]).ok_or(AddressError::NotFound)
}

/// Why an address cannot be the node's; `None` if it can.
fn unfit(ip: IpAddr, is_own: &dyn Fn(IpAddr) -> bool) -> Option<&'static str> {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    match ip {
        _ if ip.is_loopback() => Some("is an address of the loopback interface"),
        _ if ip.is_multicast() => Some("is a multicast address"),
        _ if is_link_local => Some("is link-local"),
        _ if ip.is_unspecified() => Some("is the unspecified address"),
        _ if !is_own(ip) => Some("is not an address of this host"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn chosen(
        name: &str,
        given: &[&str],
        by_name: &[&str],
        outgoing: &[&str],
    ) -> Result<Vec<IpAddr>, String> {
        let is_own = |ip: IpAddr| ip.to_string().starts_with("10.") || ip.to_string().starts_with("fd");
        let (given, by_name, outgoing) = (ips(given), ips(by_name), ips(outgoing));
        let known = KnownAddresses { given: &given, by_name: &by_name, outgoing: &outgoing, is_own: &is_own };
        choose(name, &known).map_err(|error| error.to_string())
    }

    #[test]
    fn configured_addresses_come_first() {
        assert_eq!(chosen("n", &["10.0.0.1"], &["10.0.0.2"], &["10.0.0.3"]), Ok(ips(&["10.0.0.1"])));
        assert_eq!(chosen("n", &["fd00::1", "10.0.0.1"], &[], &[]), Ok(ips(&["fd00::1", "10.0.0.1"])));
        for (ip, what) in [
            ("127.0.0.1", "loopback"),
            ("224.0.0.1", "multicast"),
            ("169.254.0.1", "link-local"),
            ("fe80::1", "link-local"),
            ("192.0.2.1", "not an address of this host"),
        ] {
            let error = chosen("n", &[ip], &[], &["10.0.0.3"]).unwrap_err();
            assert!(error.contains(ip) && error.contains(what), "{error}");
        }
    }

    #[test]
    fn otherwise_the_name_or_the_route_decides() {
        assert_eq!(chosen("10.0.0.9", &[], &[], &["10.0.0.3"]), Ok(ips(&["10.0.0.9"])));
        assert_eq!(
            chosen("n", &[], &["127.0.1.1", "fd00::2", "10.0.0.2"], &["10.0.0.3"]),
            Ok(ips(&["10.0.0.2"]))
        );
        assert_eq!(chosen("n", &["::"], &["10.0.0.2", "fd00::2"], &[]), Ok(ips(&["fd00::2"])));
        assert_eq!(
            chosen("n", &["0.0.0.0"], &["127.0.1.1"], &["10.0.0.3", "fd00::3"]),
            Ok(ips(&["10.0.0.3"]))
        );
        assert_eq!(chosen("n", &["::"], &[], &["10.0.0.3", "fd00::3"]), Ok(ips(&["fd00::3"])));
        assert_eq!(chosen("n", &[], &[], &["fd00::3"]), Ok(ips(&["fd00::3"])));
        assert!(chosen("n", &[], &["127.0.1.1"], &[]).unwrap_err().starts_with("cannot find an address"));
    }

    #[test]
    fn names_are_resolved_only_when_needed() {
        assert!(needs_lookup(&[], "n") && needs_lookup(&ips(&["::"]), "n"));
        assert!(!needs_lookup(&ips(&["10.0.0.1"]), "n") && !needs_lookup(&[], "10.0.0.1"));
    }
}

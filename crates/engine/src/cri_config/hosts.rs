//! Content of a pod's `/etc/hosts`. Pure; `files` writes it.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::HostAlias;

const MANAGED_HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HOST_NETWORK_HEADER: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOOPBACK: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// The file of a pod with its own network: the pod's addresses with its hostname and, with a domain, its FQDN.
pub(super) fn managed(pod_ips: &[IpAddr], hostname: &str, domain: &str, aliases: &[HostAlias]) -> Vec<u8> {
    let names =
        if domain.is_empty() { hostname.to_owned() } else { format!("{hostname}.{domain}\t{hostname}") };
    let own: String = pod_ips.iter().map(|ip| format!("{ip}\t{names}\n")).collect();
    [MANAGED_HEADER, LOOPBACK, &own, &entries(aliases)].concat().into_bytes()
}

/// The file of a pod on the host's network: the host's own.
pub(super) fn of_host(content: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    [HOST_NETWORK_HEADER.as_bytes(), content, entries(aliases).as_bytes()].concat()
}

fn entries(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let line = |alias: &HostAlias| {
        format!("{}\t{}\n", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"))
    };
    let lines: String = aliases.iter().map(line).collect();
    format!("\n# Entries added by HostAliases.\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias() -> HostAlias {
        HostAlias { ip: "10.1.2.3".into(), hostnames: Some(vec!["foo".into(), "bar".into()]) }
    }

    #[test]
    fn managed_file_equals_the_stock_kubelets() {
        let ips = ["10.88.7.89".parse().unwrap()];
        let content = managed(&ips, "myhost", "sub.demo.svc.cluster.local", &[alias()]);
        let expected = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
10.88.7.89\tmyhost.sub.demo.svc.cluster.local\tmyhost

# Entries added by HostAliases.
10.1.2.3\tfoo\tbar
";
        assert_eq!(String::from_utf8(content).unwrap(), expected);
    }

    #[test]
    fn without_domain_each_address_has_the_hostname() {
        let ips = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let content = String::from_utf8(managed(&ips, "web", "", &[])).unwrap();
        assert!(content.ends_with("ip6-allrouters\n10.0.0.2\tweb\nfd00::2\tweb\n"), "{content}");
    }

    #[test]
    fn host_network_keeps_the_hosts_file_byte_for_byte() {
        let content = of_host(b"127.0.0.1 here \xff\n", &[alias()]);
        let expected: &[u8] = b"# Kubernetes-managed hosts file (host network).\n127.0.0.1 here \xff\n\n# Entries added by HostAliases.\n10.1.2.3\tfoo\tbar\n";
        assert_eq!(content, expected);
    }
}

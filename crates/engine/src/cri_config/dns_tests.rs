//! Tests of the pod DNS configuration.

use k8s_openapi::api::core::v1::{Pod, PodDNSConfigOption, PodSpec};
use proptest::prelude::*;

use super::*;
use crate::cri_config::testing::host;

fn pod(change: impl Fn(&mut PodSpec)) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".into());
    pod.metadata.namespace = Some("ns".into());
    pod.metadata.uid = Some("u".into());
    change(pod.spec.get_or_insert_default());
    pod
}

fn resolver() -> DnsConfig {
    parse_resolv_conf("nameserver 1.1.1.1\nsearch example.com\noptions attempts:2\n").unwrap()
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(String::from).to_vec()
}

#[test]
fn resolver_file() {
    let text = "# comment\n; comment\nnameserver 1.1.1.1 # first\n\tnameserver fe80::1%eth0\r\nsearch lost.example\n\
                search a.example. b.example .\noptions ndots:2 rotate\noptions ndots:3\nsortlist 1.2.3.4\n";
    let config = parse_resolv_conf(text).unwrap();
    assert_eq!(config.servers, ["1.1.1.1", "fe80::1%eth0"]);
    assert_eq!(config.searches, ["a.example", "b.example"]);
    assert_eq!(config.options, ["ndots:3", "rotate"]);
    assert_eq!(parse_resolv_conf("").unwrap(), DnsConfig::default());
    assert_eq!(parse_resolv_conf("nameserver\n"), Err(ResolvConfError::NoAddress));
}

#[test]
fn a_search_line_of_the_host_that_exceeds_the_limits_of_pods_is_reported_in_upstreams_words() {
    let found = |searches: &[String], domain: &str| {
        exceeded_search_limit(searches, Path::new("/etc/resolv.conf"), domain).unwrap_or_default()
    };
    let short = |count: usize| vec!["a".to_owned(); count];
    assert_eq!(found(&short(32), ""), "");
    assert_eq!(
        found(&short(33), ""),
        "Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 32 domains!"
    );
    assert_eq!(found(&short(29), "cluster.local"), "");
    assert_eq!(
        found(&short(30), "cluster.local"),
        "Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 29 domains!"
    );
    assert_eq!(found(&["a".repeat(253)], ""), "");
    assert_eq!(
        found(&["a".repeat(254)], ""),
        "Resolv.conf file \"/etc/resolv.conf\" contains a search path which length is more than allowed 253 chars!"
    );
    let long = |last: usize| [vec!["a".repeat(204); 9], vec!["a".repeat(last)]].concat();
    assert_eq!(found(&long(203), ""), "");
    assert_eq!(
        found(&long(204), ""),
        "Resolv.conf file '/etc/resolv.conf' contains search line which length is more than allowed 2048 chars!"
    );
}

#[test]
fn cluster_first_is_the_default() {
    let (config, warnings) = pod_dns((&pod(|_| ())).into(), resolver(), &host());
    assert_eq!(config.servers, ["10.96.0.10"]);
    assert_eq!(
        config.searches,
        ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"]
    );
    assert_eq!(config.options, ["ndots:5"]);
    assert!(warnings.is_empty());
}

#[test]
fn host_network_pods_resolve_like_the_host_by_default() {
    let mut host_network = pod(|spec| spec.host_network = Some(true));
    assert_eq!(pod_dns((&host_network).into(), resolver(), &host()).0, resolver());
    host_network.spec.as_mut().unwrap().dns_policy = Some("ClusterFirstWithHostNet".into());
    assert_eq!(pod_dns((&host_network).into(), resolver(), &host()).0.servers, ["10.96.0.10"]);
}

#[test]
fn without_cluster_dns_the_hosts_dns_is_used_with_a_warning() {
    let mut host = host();
    host.cluster_dns.clear();
    let (config, warnings) = pod_dns((&pod(|_| ())).into(), resolver(), &host);
    assert_eq!(config, resolver());
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].reason, "MissingClusterDNS");
    assert!(
        warnings[0].message.starts_with("pod: \"web_ns(u)\". kubelet does not have ClusterDNS IP configured")
    );
    host.cluster_domain.clear();
    let (config, warnings) = pod_dns((&pod(|_| ())).into(), resolver(), &host);
    assert_eq!((config, warnings.len()), (resolver(), 0), "alone there is no cluster to miss");
}

#[test]
fn without_resolver_file_dns_is_off() {
    let mut host = host();
    host.resolv_conf = None;
    let default = pod(|spec| spec.dns_policy = Some("Default".into()));
    let off = pod_dns((&default).into(), DnsConfig::default(), &host).0;
    assert_eq!((off.servers, off.searches), (texts(["127.0.0.1"]), texts(["."])));
    host.node_ips = hostlet_base::node::NodeAddresses::fixed(["fd00::1".parse().unwrap()]);
    assert_eq!(pod_dns((&default).into(), DnsConfig::default(), &host).0.servers, ["::1"]);
}

#[test]
fn own_config_is_merged_over_the_policy() {
    let option = |name: &str, value: Option<&str>| PodDNSConfigOption {
        name: Some(name.into()),
        value: value.map(String::from),
    };
    let custom = pod(|spec| {
        spec.dns_config = Some(PodDNSConfig {
            nameservers: Some(texts(["9.9.9.9", "10.96.0.10"])),
            searches: Some(texts(["cluster.local", "own.example"])),
            options: Some(vec![option("ndots", Some("1")), option("edns0", None)]),
        });
    });
    let config = pod_dns((&custom).into(), DnsConfig::default(), &host()).0;
    assert_eq!(config.servers, ["10.96.0.10", "9.9.9.9"]);
    assert_eq!(
        config.searches,
        ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "own.example"]
    );
    assert_eq!(config.options, ["ndots:1", "edns0"]);

    let mut only_own = custom;
    only_own.spec.as_mut().unwrap().dns_policy = Some("None".into());
    let config = pod_dns((&only_own).into(), resolver(), &host()).0;
    assert_eq!(config.servers, ["9.9.9.9", "10.96.0.10"]);
    assert_eq!(config.searches, ["cluster.local", "own.example"]);
}

#[test]
fn entries_over_the_limits_are_omitted_with_a_warning() {
    let many = pod(|spec| {
        spec.dns_policy = Some("None".into());
        spec.dns_config = Some(PodDNSConfig {
            nameservers: Some(texts(["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"])),
            searches: Some((0..40).map(|n| format!("{n}.example")).collect()),
            options: None,
        });
    });
    let (config, warnings) = pod_dns((&many).into(), resolver(), &host());
    assert_eq!(config.servers.len(), 3);
    assert_eq!(config.searches.len(), 32);
    assert!(warnings.iter().all(|warning| warning.reason == "DNSConfigForming"));
    assert_eq!(
        warnings[0].message,
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3"
    );
    assert!(warnings[1].message.starts_with("Search Line limits were exceeded"));
}

#[test]
fn overlong_search_lists_are_truncated() {
    let path = |n: usize| format!("{n:0>249}");
    let mut config = DnsConfig { searches: (0..12).map(path).collect(), ..Default::default() };
    config.searches.insert(0, "x".repeat(254));
    let mut warnings = Vec::new();
    fit_limits(&mut config, &mut warnings);
    assert_eq!(config.searches, (0..8).map(path).collect::<Vec<_>>());
    assert_eq!(warnings.len(), 1);
}

proptest! {
    #[test]
    fn any_resolver_file_gives_a_config_within_the_limits(text in "((nameserver|search|options|#)?[ .a-z0-9:\n\t]{0,40}\n?)*|.*") {
        let resolver = parse_resolv_conf(&text).unwrap_or_default();
        let (config, _) = pod_dns((&pod(|_| ())).into(), resolver, &host());
        prop_assert!(config.servers.len() <= MAX_NAMESERVERS);
        prop_assert!(config.searches.len() <= MAX_SEARCH_PATHS);
        prop_assert!(config.searches.join(" ").len() <= MAX_SEARCH_CHARS);
    }
}

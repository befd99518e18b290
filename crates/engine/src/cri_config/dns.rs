//! DNS configuration of a pod from the host's resolv.conf, the pod's policy and its `dnsConfig`, within the limits of resolvers
//! (Kubernetes docs, "DNS for Services and Pods"; resolv.conf(5)). Pure; never resolves a name.

use std::net::IpAddr;
use std::path::Path;

use hostlet_pod::view::PodView;
use hostlet_runtime::cri::wire::DnsConfig;
use k8s_openapi::api::core::v1::PodDNSConfig;

use super::HostSettings;

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;
/// Some resolvers abort on longer search paths.
const MAX_SEARCH_PATH_CHARS: usize = 253;
/// Search paths that pods of a cluster have before those of the host.
const CLUSTER_SEARCH_PATHS: usize = 3;
const CLUSTER_OPTION: &str = "ndots:5";

/// Why a resolv.conf is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolvConfError {
    /// A `nameserver` line without an address.
    #[error("nameserver list is empty")]
    NoAddress,
}

/// A warning for the pod's owner: reason and message of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DnsWarning {
    /// `DNSConfigForming` or `MissingClusterDNS`.
    pub reason: &'static str,
    /// What was omitted, or the fallback.
    pub message: String,
}

/// Parses a resolv.conf. The last `search` line wins, nameservers accumulate, a later option replaces an earlier one of the same
/// name; unknown lines are skipped.
pub fn parse_resolv_conf(text: &str) -> Result<DnsConfig, ResolvConfError> {
    let mut config = DnsConfig::default();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("nameserver") => {
                config.servers.push(fields.next().ok_or(ResolvConfError::NoAddress)?.to_owned())
            }
            // A domain with and without the trailing dot is the same; counting it twice would reach the limits early.
            Some("search") => {
                let paths = fields.filter(|path| *path != ".");
                config.searches =
                    paths.map(|path| path.strip_suffix('.').unwrap_or(path).to_owned()).collect();
            }
            Some("options") => fields.for_each(|option| set_option(&mut config.options, option.to_owned())),
            _ => {}
        }
    }
    Ok(config)
}

/// Which limit of pods the search line of the host's resolv.conf exceeds, in upstream's words; `None` if it fits.
pub(super) fn exceeded_search_limit(
    searches: &[String],
    path: &Path,
    cluster_domain: &str,
) -> Option<String> {
    let path = path.display();
    let max_paths =
        if cluster_domain.is_empty() { MAX_SEARCH_PATHS } else { MAX_SEARCH_PATHS - CLUSTER_SEARCH_PATHS };
    if searches.len() > max_paths {
        return Some(format!(
            "Resolv.conf file '{path}' contains search line consisting of more than {max_paths} domains!"
        ));
    }
    if searches.iter().any(|search| search.len() > MAX_SEARCH_PATH_CHARS) {
        return Some(format!(
            "Resolv.conf file \"{path}\" contains a search path which length is more than allowed {MAX_SEARCH_PATH_CHARS} chars!"
        ));
    }
    (searches.join(" ").len() > MAX_SEARCH_CHARS).then(|| {
        format!(
            "Resolv.conf file '{path}' contains search line which length is more than allowed {MAX_SEARCH_CHARS} chars!"
        )
    })
}

/// The effective DNS policy.
#[derive(Clone, Copy)]
enum Policy {
    Cluster,
    Host,
    None,
}

impl Policy {
    fn of(pod: PodView<'_>) -> Self {
        match pod.spec.dns_policy.as_deref() {
            Some("None") => Self::None,
            Some("Default") => Self::Host,
            Some("ClusterFirstWithHostNet") => Self::Cluster,
            // `ClusterFirst`, the default and upstream's fallback for an unknown policy.
            _ if pod.host_network() => Self::Host,
            _ => Self::Cluster,
        }
    }
}

/// DNS configuration of a pod; `resolver` is the host's parsed resolv.conf, empty if none is configured.
pub(super) fn pod_dns(
    pod: PodView<'_>,
    resolver: DnsConfig,
    host: &HostSettings,
) -> (DnsConfig, Vec<DnsWarning>) {
    let mut warnings = Vec::new();
    let mut config = match Policy::of(pod) {
        Policy::None => DnsConfig::default(),
        Policy::Host => host_config(resolver, host),
        // A node without a cluster domain is standalone, so no pod misses the cluster's DNS.
        Policy::Cluster if host.cluster_dns.is_empty() && host.cluster_domain.is_empty() => {
            host_config(resolver, host)
        }
        Policy::Cluster if host.cluster_dns.is_empty() => {
            warnings.push(DnsWarning {
                reason: "MissingClusterDNS",
                message: format!(
                    "pod: {:?}. kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                     \"ClusterFirst\" policy. Falling back to \"Default\" policy.",
                    pod.describe()
                ),
            });
            host_config(resolver, host)
        }
        Policy::Cluster => cluster_config(pod.namespace, resolver.searches, host),
    };
    if let Some(own) = &pod.spec.dns_config {
        merge(&mut config, own);
    }
    fit_limits(&mut config, &mut warnings);
    (config, warnings)
}

/// Without a resolv.conf, DNS is disabled: by resolv.conf(5) an empty file means the local server.
fn host_config(resolver: DnsConfig, host: &HostSettings) -> DnsConfig {
    if host.resolv_conf.is_some() {
        return resolver;
    }
    let loopback = |ip: &IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned();
    let mut servers: Vec<String> = host.node_ips.now().iter().map(loopback).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    DnsConfig { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

fn cluster_config(namespace: &str, host_searches: Vec<String>, host: &HostSettings) -> DnsConfig {
    let domain = &host.cluster_domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    }
    add_missing(&mut searches, host_searches);
    DnsConfig {
        servers: host.cluster_dns.iter().map(IpAddr::to_string).collect(),
        searches,
        options: vec![CLUSTER_OPTION.to_owned()],
    }
}

fn merge(config: &mut DnsConfig, own: &PodDNSConfig) {
    add_missing(&mut config.servers, own.nameservers.iter().flatten().cloned());
    add_missing(&mut config.searches, own.searches.iter().flatten().cloned());
    for option in own.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        match option.value.as_deref() {
            None | Some("") => set_option(&mut config.options, name.to_owned()),
            Some(value) => set_option(&mut config.options, format!("{name}:{value}")),
        }
    }
}

fn add_missing(list: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

/// Sets the option `name` or `name:value`, replacing one of the same name.
fn set_option(options: &mut Vec<String>, option: String) {
    fn name(option: &str) -> &str {
        option.split_once(':').map_or(option, |(name, _)| name)
    }
    match options.iter_mut().find(|existing| name(existing) == name(&option)) {
        Some(existing) => *existing = option,
        None => options.push(option),
    }
}

fn fit_limits(config: &mut DnsConfig, warnings: &mut Vec<DnsWarning>) {
    const REASON: &str = "DNSConfigForming";
    if config.servers.len() > MAX_NAMESERVERS {
        config.servers.truncate(MAX_NAMESERVERS);
        let applied = config.servers.join(" ");
        let message = format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {applied}"
        );
        warnings.push(DnsWarning { reason: REASON, message });
    }
    let wanted = config.searches.len();
    config.searches.truncate(MAX_SEARCH_PATHS);
    config.searches.retain(|path| path.len() <= MAX_SEARCH_PATH_CHARS);
    while config.searches.join(" ").len() > MAX_SEARCH_CHARS {
        config.searches.pop();
    }
    if config.searches.len() < wanted {
        let applied = config.searches.join(" ");
        let message = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {applied}"
        );
        warnings.push(DnsWarning { reason: REASON, message });
    }
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;

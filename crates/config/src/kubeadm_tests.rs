//! A node that kubeadm prepared: its files as kubeadm 1.37 writes them (`cmd/kubeadm/app/phases/kubelet`), with the flags of its
//! systemd drop-in.

use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use tempfile::TempDir;

use crate::{Config, KubeletFlags, Loaded, load};

const CONFIG: &str = include_str!("testdata/kubeadm/config.yaml");
const INSTANCE: &str = include_str!("testdata/kubeadm/instance-config.yaml");
/// Flags of kubeadm 1.37, and of a version that still set the runtime and the sandbox image.
const FLAGS: &str = include_str!("testdata/kubeadm/kubeadm-flags.env");
const FORMER_FLAGS: &str = include_str!("testdata/kubeadm/kubeadm-flags-1.28.env");

/// Loads what the drop-in's command line names: its own flags, then those of `kubeadm-flags.env`.
fn loaded(flags: &str) -> Loaded {
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let flags = flags.trim().strip_prefix("KUBELET_KUBEADM_ARGS=\"").unwrap().strip_suffix('"').unwrap();
    let config = format!("--config={}", config.display());
    let own = [
        "kubelet",
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        &config,
    ];
    let command = KubeletFlags::augment_args(Command::new("kubelet").disable_version_flag(true));
    let matches = command.try_get_matches_from(own.into_iter().chain(flags.split(' '))).unwrap();
    load(&KubeletFlags::from_arg_matches(&matches).unwrap(), "host1").unwrap()
}

fn check(config: &Config) {
    let cluster = config.cluster.as_ref().unwrap();
    assert_eq!(cluster.kubeconfig, Path::new("/etc/kubernetes/kubelet.conf"));
    let bootstrap = cluster.bootstrap_kubeconfig.as_deref();
    assert_eq!(bootstrap, Some(Path::new("/etc/kubernetes/bootstrap-kubelet.conf")));
    assert_eq!(cluster.cert_dir, Path::new("/var/lib/kubelet/pki"));
    assert!(cluster.rotate_certificates);
    assert_eq!(config.healthz, Some("127.0.0.1:10248".parse().unwrap()));
    assert_eq!(config.runtime.runtime_socket, Path::new("/var/run/containerd/containerd.sock"));
    assert_eq!(config.sources.static_pod_path.as_deref(), Some(Path::new("/etc/kubernetes/manifests")));
    assert_eq!(config.dns.cluster_domain, "cluster.local");
    assert_eq!(config.node_ips, ["10.0.0.5".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn a_node_prepared_by_kubeadm_is_configured_unchanged() {
    let Loaded { config, warnings, .. } = loaded(FLAGS);
    check(&config);
    assert_eq!(config.node_name, "node1");
    assert_eq!(config.node.taints.len(), 1);
    assert_eq!(config.node_api.client_ca_file.as_deref(), Some(Path::new("/etc/kubernetes/pki/ca.crt")));
    assert_eq!(warnings, []);
}

#[test]
fn flags_of_former_versions_of_kubeadm_are_accepted() {
    let Loaded { config, warnings, .. } = loaded(FORMER_FLAGS);
    check(&config);
    assert_eq!(config.node_name, "host1");
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let expected = "--pod-infra-container-image: the container runtime chooses the image of sandboxes";
    assert!(warnings.iter().any(|warning| warning.starts_with(expected)), "{warnings:?}");
}

/// kubeadm merges this file into `config.yaml` itself; the kubelet never reads it.
#[test]
fn the_instance_configuration_names_the_runtime_of_the_configuration() {
    let endpoint = INSTANCE.trim().strip_prefix("containerRuntimeEndpoint: ").unwrap().trim_matches('"');
    assert!(CONFIG.contains(&format!("containerRuntimeEndpoint: {endpoint}\n")));
}

//! Tests of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use super::{KubeletFlags, VersionForm, with_plain_names};

#[derive(Parser)]
#[command(disable_version_flag = true)]
struct Daemon {
    #[command(flatten)]
    flags: KubeletFlags,
}

fn parse(arguments: &[&str]) -> Result<KubeletFlags, clap::Error> {
    let arguments = ["hostlet"].iter().chain(arguments).map(OsString::from);
    Daemon::try_parse_from(with_plain_names(arguments)).map(|daemon| daemon.flags)
}

fn fields(arguments: &[&str]) -> Vec<(&'static str, Vec<String>)> {
    let flags = parse(arguments).unwrap();
    flags.fields.fields.into_iter().map(|(flag, values)| (flag.path, values)).collect()
}

#[test]
fn no_flags_are_the_default() {
    assert_eq!(parse(&[]).unwrap(), KubeletFlags::default());
}

#[test]
fn flags_of_a_unit_file_are_accepted() {
    let flags = parse(&[
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/var/lib/kubelet/config.yaml",
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        "--node-ip=10.0.0.1,fd00::1",
        "--hostname-override",
        "node1",
        "--exit-on-lock-contention",
        "--lock-file=/run/lock",
    ])
    .unwrap();
    assert_eq!(flags.process.config, Some(PathBuf::from("/var/lib/kubelet/config.yaml")));
    assert_eq!(flags.process.node_ip, "10.0.0.1,fd00::1");
    assert_eq!(flags.process.hostname_override.as_deref(), Some("node1"));
    assert!(flags.process.exit_on_lock_contention);
    assert_eq!(flags.fields.fields[0].0.path, "containerRuntimeEndpoint");
}

#[test]
fn values_are_given_as_in_go() {
    let one = |path: &'static str, value: &str| vec![(path, vec![value.to_owned()])];
    assert_eq!(fields(&["--fail-swap-on"]), one("failSwapOn", "true"));
    assert_eq!(fields(&["--fail-swap-on=false"]), one("failSwapOn", "false"));
    assert_eq!(fields(&["--fail_swap_on=false"]), one("failSwapOn", "false"));
    assert_eq!(fields(&["--oom-score-adj", "-500"]), one("oomScoreAdj", "-500"));
    for verbose in [&["-v", "3"][..], &["-v=3"], &["-v3"], &["--v=3"], &["--v", "3"]] {
        assert_eq!(fields(verbose), one("logging.verbosity", "3"), "{verbose:?}");
    }
    assert_eq!(
        fields(&["--cluster-dns=10.0.0.10", "--cluster-dns", "fd00::a"]),
        [("clusterDNS", vec!["10.0.0.10".to_owned(), "fd00::a".to_owned()])]
    );
}

#[test]
fn the_last_of_several_values_applies() {
    let flags = parse(&[
        "--config=/a",
        "--kubeconfig=/a",
        "--root-dir",
        "/a",
        "--hostname-override=a",
        "--node-ip=10.0.0.1",
        "--cloud-provider=external",
        "--exit-on-lock-contention",
        "--node-labels=a=1,b=1",
        "--config=/b",
        "--kubeconfig=",
        "--root-dir",
        "/b",
        "--hostname-override=b",
        "--node-ip=10.0.0.2,fd00::2",
        "--cloud-provider=",
        "--exit-on-lock-contention=0",
        "--node-labels=b=2",
    ])
    .unwrap();
    let process = flags.process;
    assert_eq!(process.config, Some(PathBuf::from("/b")));
    assert_eq!(process.kubeconfig, None, "an empty value is unset");
    assert_eq!(process.root_dir, PathBuf::from("/b"));
    assert_eq!(process.hostname_override.as_deref(), Some("b"));
    assert_eq!(process.node_ip, "10.0.0.2,fd00::2");
    assert_eq!(process.cloud_provider, "");
    assert!(!process.exit_on_lock_contention);
    assert_eq!(process.node_labels, ["a=1", "b=1", "b=2"], "labels collect");
}

#[test]
fn empty_values_are_unset() {
    let flags = parse(&[
        "--config=",
        "--config-dir",
        "",
        "--kubeconfig=",
        "--bootstrap-kubeconfig=",
        "--cert-dir=",
        "--hostname-override=",
        "--node-ip=",
        "--node-labels=",
        "--lock-file=",
        "--root-dir=",
        "--runtime-cgroups=",
        "--image-credential-provider-config=",
    ]);
    assert_eq!(flags.unwrap().process, KubeletFlags::default().process);
    assert_eq!(parse(&["--node-labels=a=1,"]).unwrap().process.node_labels, ["a=1"]);
}

#[test]
fn underscores_are_replaced_in_names_only() {
    let plain = |arguments: &[&str]| with_plain_names(arguments.iter().map(OsString::from));
    assert_eq!(
        plain(&["--pod_cidr=a_b", "a_b", "-_", "--", "--a_b"]),
        ["--pod-cidr=a_b", "a_b", "-_", "--", "--a_b"]
    );
}

#[test]
fn flags_that_upstream_removed_are_unknown() {
    for flag in ["--network-plugin=cni", "--container-runtime=remote", "--cni-bin-dir=/a"] {
        let error = parse(&[flag]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{flag}");
    }
    assert!(parse(&["positional"]).is_err());
    assert!(parse(&["--fail-swap-on", "false"]).is_err());
}

#[test]
fn flags_without_effect_are_kept_if_not_default() {
    let flags = parse(&[
        "--housekeeping-interval=1s",
        "--housekeeping-interval=10s",
        "--containerd-namespace=k",
        "--storage-driver-secure",
    ])
    .unwrap();
    assert_eq!(flags.fields.idle, ["containerd-namespace", "storage-driver-secure"]);
}

#[test]
fn the_version_has_forms() {
    let version = |arguments: &[&str]| parse(arguments).unwrap().process.version;
    assert_eq!(version(&[]), None);
    assert_eq!(version(&["--version"]), Some(VersionForm::True));
    assert_eq!(version(&["--version=raw"]), Some(VersionForm::Raw));
    assert_eq!(version(&["--version=false"]), Some(VersionForm::False));
}

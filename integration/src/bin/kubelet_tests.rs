//! Runs Kubernetes' own tests of a kubelet (`test/e2e_node`) on a host with containerd; the suite starts an API server and the kubelet
//! under test itself, in places that nobody can choose. `integration/kubelet_tests.sh` builds what it needs, gives it these places in
//! namespaces of its own, and runs it there. `--judge DIRECTORY` only judges the report of specs that ran elsewhere: in a virtual machine
//! (`integration/vm/e2e_node.sh`).

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::FakeLogind;
use hostlet_integration::cluster::{Agent, E2eImages, kubernetes_program};
use hostlet_integration::ginkgo::{Options, Suite, oom_scores};
use hostlet_integration::real::RealHost;
use serde_json::json;

/// The specs of features that are on by default, from which `--focus` selects.
const SPECS: &str = "!(Feature: containsAny OffByDefault)";
/// Of these by default: those that every node has to pass, next to each other and soon.
const BY_DEFAULT: &str = "NodeConformance && !Serial && !Slow && !Disruptive";
/// How many run at once. They mostly wait.
const PARALLEL: usize = 8;
/// What logind would delay a shutdown for: more than any spec asks of it, so that no configuration of it is written.
const DELAY: Duration = Duration::from_hours(1);
/// The stand-ins for systemd's programs, in the source tree.
const SYSTEMD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubelet_tests");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::read("hostlet-kubelet-tests", PARALLEL)?;
    if options.is_made {
        return options.judge();
    }
    let host = RealHost::start().await?;
    // Where cAdvisor, which is part of the stock kubelet, looks for it whatever its endpoint; nothing else is in this /run.
    fs::create_dir_all("/run/containerd").context("creating /run/containerd")?;
    symlink(host.socket(), "/run/containerd/containerd.sock").context("linking containerd's socket")?;
    let images = E2eImages::serve(&host).await?;
    images.pull(&host).await?;
    let logind = FakeLogind::start(DELAY).await?;
    if Agent::chosen()? == Agent::Hostlet {
        // The stock kubelet believes whoever sends a signal.
        logind.obey_signals()?;
    }
    let mut suite = suite(&host, &options)?;
    suite.ginkgo.env("DBUS_SYSTEM_BUS_ADDRESS", logind.address());
    let outcome = suite.run(&options);
    drop((images, logind));
    outcome
}

fn suite(host: &RealHost, options: &Options) -> Result<Suite> {
    let work = host.directory("suite")?;
    let program = programs(&work)?;
    let mut labels = vec![SPECS];
    if !options.has_focus() {
        labels.push(BY_DEFAULT);
    }
    labels.extend(oom_scores());
    let mut ginkgo = host.command(&kubernetes_program("ginkgo")?.to_string_lossy());
    let path = env::var("PATH").unwrap_or_default();
    // The suite keeps files of the kubelet in the working directory.
    ginkgo.current_dir(&work).env("PATH", format!("{SYSTEMD}:{path}"));
    // The suite's etcd does not report its progress, so the stock kubelet would wait for its first lists, and not become ready.
    ginkgo.env("KUBE_FEATURE_WatchListClient", "false");
    let arguments = vec![
        format!("--kubelet-config-file={}", configuration(host, &work)?.display()),
        format!("--container-runtime-endpoint=unix://{}", host.socket().display()),
        format!("--container-runtime-process-name={}", containerd(&path)?.display()),
        format!("--container-runtime-pid-file={}", pid_file(host, &work)?.display()),
        format!("--report-dir={}", options.report.display()),
        "--node-name=node1".to_owned(),
        // They are there.
        "--prepull-images=false".to_owned(),
    ];
    Ok(Suite { ginkgo, program, arguments, labels: labels.join(" && ") })
}

/// Links the tests and the kubelet under test into one directory, where the tests look for it. Returns that of the tests.
fn programs(work: &Path) -> Result<PathBuf> {
    let (tests, kubelet) = (work.join("e2e_node.test"), work.join("kubelet"));
    symlink(kubernetes_program("e2e_node.test")?, &tests).context("linking the tests")?;
    symlink(Agent::chosen()?.program()?, kubelet).context("linking the kubelet")?;
    Ok(tests)
}

/// Writes the base of the kubelet's configuration, like upstream's `test/e2e_node/jenkins/default-kubelet-config.yaml`.
fn configuration(host: &RealHost, work: &Path) -> Result<PathBuf> {
    let (file, resolv) = (work.join("base.yaml"), work.join("resolv.conf"));
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "podCIDR": "10.100.0.0/24",
        "resolvConf": resolv,
        "volumePluginDir": host.directory("volume-plugins")?,
        "volumeStatsAggPeriod": "10s",
        "fileCheckFrequency": "10s",
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "systemReserved": {"cpu": "100m", "memory": "128Mi"},
        "evictionPressureTransitionPeriod": "30s",
        // The machine's disk is shared.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},
        "evictionMinimumReclaim": {"nodefs.available": "5%", "nodefs.inodesFree": "5%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    });
    // JSON is YAML.
    for (file, text) in [(&file, config.to_string()), (&resolv, "nameserver 10.96.0.10\n".to_owned())] {
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(file)
}

fn pid_file(host: &RealHost, work: &Path) -> Result<PathBuf> {
    let file = work.join("containerd.pid");
    fs::write(&file, host.containerd_pid().to_string()).context("writing containerd's pid")?;
    Ok(file)
}

/// The containerd that the host runs: the first one in `PATH`.
fn containerd(path: &str) -> Result<PathBuf> {
    env::split_paths(path)
        .map(|dir| dir.join("containerd"))
        .find(|file| file.exists())
        .context("no containerd in PATH")
}

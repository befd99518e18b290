//! Command line and configuration: an error stops the daemon before anything runs, with a clear message.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::program;

use crate::support::{stderr, stdout, wait_until_ready, write_pods};

/// Runs the program until it exits; a daemon that continues is stopped, which its exit code shows.
fn hostlet(args: &[&str]) -> Result<Output> {
    let seconds = "60";
    Command::new("timeout").arg(seconds).arg(program()?).args(args).output().context("running hostlet")
}

/// A configuration file for the host with these additional lines.
fn config(host: &FakeHost, lines: &str) -> Result<PathBuf> {
    let file = host.directory().join("bad.yaml");
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let endpoint = format!("containerRuntimeEndpoint: {}\n", host.cri.endpoint());
    fs::write(&file, format!("{head}{endpoint}{lines}"))?;
    Ok(file)
}

#[test]
fn an_invalid_configuration_stops_the_daemon_before_anything_runs() {
    let host = FakeHost::start().unwrap();
    let cases = [
        ("maxPod: 5\n", vec!["bad.yaml:4", "maxPod", "maxPods"]),
        ("maxPods: 5\nmaxPods: 6\n", vec!["bad.yaml:5", "maxPods"]),
        ("maxPods: many\n", vec!["bad.yaml:4", "maxPods"]),
        ("maxPods: -1\nport: 70000\n", vec!["bad.yaml:4", "maxPods", "bad.yaml:5", "port"]),
        ("maxPods: [\n", vec!["bad.yaml:"]),
        ("---\napiVersion: v1\nkind: Pod\n", vec!["bad.yaml:6", "Pod"]),
        ("cgroupsPerQOS: false\n", vec!["enforceNodeAllocatable"]),
    ];
    for (lines, expected) in cases {
        let file = config(&host, lines).unwrap();
        let path = file.to_str().unwrap();
        let root = host.directory().join("root");
        let output = hostlet(&["--config", path, "--root-dir", root.to_str().unwrap()]).unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{lines}: {text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{lines}: {text}");
        assert!(!root.exists(), "{lines}");
        assert_eq!(hostlet(&["config", "check", path]).unwrap().status.code(), Some(64), "{lines}");
    }
    let absent = hostlet(&["--config", "/nonexistent/config.yaml"]).unwrap();
    assert_eq!(absent.status.code(), Some(64));
    assert!(stderr(&absent).contains("/nonexistent/config.yaml"), "{}", stderr(&absent));
    assert!(host.runtime().calls().is_empty(), "the runtime was called");
}

#[test]
fn a_valid_configuration_is_accepted_and_shown_completely() {
    let host = FakeHost::start().unwrap();
    let file = config(&host, "maxPods: 7\n").unwrap();
    let path = file.to_str().unwrap();
    let checked = hostlet(&["config", "check", path]).unwrap();
    assert_eq!((checked.status.code(), stderr(&checked).as_str()), (Some(0), ""));
    let shown = stdout(&hostlet(&["config", "show", "--config", path, "--max-pods", "8"]).unwrap());
    assert!(shown.contains("maxPods: 8") && shown.contains("syncFrequency: 1m0s"), "{shown}");
    assert!(host.runtime().calls().is_empty());
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    for args in [&["--no-such-flag"][..], &["nosuch"], &["--max-pods", "many"], &["pods", "--max-pods", "5"]]
    {
        let output = hostlet(args).unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
    let version = hostlet(&["--version"]).unwrap();
    assert_eq!(version.status.code(), Some(0));
    assert!(stdout(&version).starts_with("hostlet 0."), "{version:?}");
    let help = hostlet(&["--help"]).unwrap();
    assert_eq!((help.status.code(), stderr(&help).as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_second_daemon_on_the_same_socket_fails() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let path = host.directory().join("config.yaml");
    let root = host.directory().join("kubelet");
    let second =
        hostlet(&["--config", path.to_str().unwrap(), "--root-dir", root.to_str().unwrap()]).unwrap();
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let socket = host.socket().display().to_string();
    assert!(stderr(&second).contains(&format!("another hostlet listens on {socket}")), "{}", stderr(&second));
    assert_eq!(daemon.pods().unwrap().len(), 1, "the first one still answers");
}

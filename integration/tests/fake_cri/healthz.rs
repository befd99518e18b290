//! The daemon's health endpoint, and its name as kubeadm calls it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};

use crate::support::LATER;

/// The answer of the endpoint.
fn ask(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("connecting")?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("reading")?;
    Ok(answer)
}

#[tokio::test]
async fn the_daemon_reports_its_health_on_loopback() {
    let host = FakeHost::start().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let flags = [format!("--healthz-port={}", address.port())];
    // A port in use is an error with the remedy. A first start opens its ports late: it may answer before it ends.
    let ended = host.run_with_until_it_ends(&flags).await.unwrap();
    let said = host.log();
    assert!(!ended.success(), "{said}");
    assert!(said.contains("another process listens on") && said.contains("healthzPort"), "{said}");
    drop(taken);
    let daemon = host.join_with(&flags, "").await.unwrap();
    wait_for("a healthy daemon", LATER, async || {
        let answer = ask(address, "/healthz?verbose").unwrap_or_else(|error| format!("{error:#}"));
        let is_healthy = answer.starts_with("HTTP/1.1 200 OK") && answer.contains("[+]syncloop ok");
        Ok(if is_healthy { Look::Done(()) } else { Look::NotYet(answer) })
    })
    .await
    .unwrap();
    assert!(ask(address, "/healthz").unwrap().ends_with("\r\n\r\nok"));
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn under_the_name_kubelet_the_version_is_that_of_kubernetes() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let kubelet = host.directory().join("kubelet-link").join("kubelet");
    std::fs::create_dir(kubelet.parent().unwrap()).unwrap();
    symlink(daemon.program(), &kubelet).unwrap();
    let output = Command::new(&kubelet).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Kubernetes v1.37.2\n");
    daemon.stop().await.unwrap();
}

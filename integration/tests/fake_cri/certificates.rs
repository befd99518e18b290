//! The daemon without a client certificate, and with one that expires: pods run, and it joins without a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, FakeApiServer, Look, wait_for};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;

use crate::support::{LATER, containers_of, wait_for_complaint, wait_until_ready, write_pods};

/// Starts the daemon with a bootstrap kubeconfig for the server, and its certificates in the host's directory.
async fn bootstrap(host: &FakeHost, server: &FakeApiServer) -> Result<Daemon> {
    let path = host.directory().join("bootstrap");
    fs::write(&path, server.kubeconfig().replacen("{name: node}", "{name: node, user: {token: t}}", 1))?;
    let flags = [
        format!("--bootstrap-kubeconfig={}", path.display()),
        format!("--cert-dir={}", host.directory().join("pki").display()),
    ];
    host.join_with(&flags, "rotateCertificates: true").await
}

/// Waits for requests with this prefix, at least `count`, and returns the name of the last one.
async fn wait_for_requests(server: &FakeApiServer, prefix: &str, count: usize) -> Result<String> {
    wait_for(&format!("{count} certificate signing requests"), LATER, async || {
        let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let requests = server.api().list::<CertificateSigningRequest>(path);
        let mut requests: Vec<_> = requests.into_iter().map(|request| request.metadata).collect();
        requests.sort_by_key(|metadata| metadata.uid.clone());
        let names: Vec<String> = requests.into_iter().filter_map(|metadata| metadata.name).collect();
        let ours: Vec<&String> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        Ok(match ours.last() {
            Some(last) if ours.len() >= count => Look::Done((*last).clone()),
            Some(_) | None => Look::NotYet(format!("{names:?}")),
        })
    })
    .await
}

async fn wait_until_registered(server: &FakeApiServer, host: &FakeHost) -> Result<()> {
    wait_for("the Node", LATER, async || {
        let node = server.api().get::<Node>(&format!("/api/v1/nodes/{}", host.node()));
        Ok(node.map_or(Look::NotYet("none".to_owned()), |_| Look::Done(())))
    })
    .await
}

#[tokio::test]
async fn a_node_bootstraps_while_its_pods_run_and_joins_without_a_restart() {
    let (host, mut server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    write_pods(&host, &["own"]).unwrap();
    // An API server that is away is no error.
    server.stop();
    let daemon = bootstrap(&host, &server).await.unwrap();
    wait_until_ready(&daemon, &["own"]).await.unwrap();
    let none = "This node has no client certificate yet.";
    wait_for_complaint(&daemon, "that there is no certificate", |said| said.contains(none)).await.unwrap();
    server.resume().unwrap();
    let name = wait_for_requests(&server, "node-csr-", 1).await.unwrap();
    let approve = format!("kubectl certificate approve {name}");
    wait_for_complaint(&daemon, "what to approve", |said| said.contains(&approve)).await.unwrap();

    // The next daemon finds the request again.
    daemon.kill().unwrap();
    let daemon = bootstrap(&host, &server).await.unwrap();
    wait_for_complaint(&daemon, "what to approve", |said| said.contains(&approve)).await.unwrap();
    assert_eq!(wait_for_requests(&server, "", 1).await.unwrap(), name);

    server.api().deny_certificate(&name, "unknown host");
    let denied = format!("{name} was denied (Test: unknown host)");
    wait_for_complaint(&daemon, "the denial", |said| said.contains(&denied)).await.unwrap();
    let name = wait_for_requests(&server, "node-csr-", 2).await.unwrap();
    server.api().issue_certificate(&name, Duration::from_secs(3600));
    wait_until_registered(&server, &host).await.unwrap();

    let (kubeconfig, pki) = (host.directory().join("kubeconfig"), host.directory().join("pki"));
    let current = pki.join("kubelet-client-current.pem");
    for secret in [&kubeconfig, &current] {
        assert_eq!(fs::metadata(secret).unwrap().permissions().mode() & 0o777, 0o600, "{}", secret.display());
    }
    let text = fs::read_to_string(&kubeconfig).unwrap();
    assert!(text.contains(&current.display().to_string()), "{text}");
    assert!(!pki.join("kubelet-client.key.tmp").exists());
    wait_for("what explain says", LATER, async || {
        let said = daemon.cli(&["explain"]).unwrap_or_else(|error| format!("{error:#}"));
        let is_said = said.contains("The client certificate of this node is valid for");
        Ok(if is_said { Look::Done(()) } else { Look::NotYet(said) })
    })
    .await
    .unwrap();
    assert_eq!(containers_of(&host, "own").len(), 1, "it was never restarted");
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_short_lived_certificate_is_renewed_again_and_again() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    write_pods(&host, &["own"]).unwrap();
    server.api().issue_certificates(Some(Duration::from_secs(10)));
    let daemon = bootstrap(&host, &server).await.unwrap();
    wait_until_registered(&server, &host).await.unwrap();
    wait_for_requests(&server, "csr-", 3).await.unwrap();
    assert_eq!(wait_for_requests(&server, "node-csr-", 1).await.unwrap().len(), "node-csr-".len() + 43);
    daemon.kill().unwrap();

    // Expired while the daemon was down: it bootstraps again, and its pod runs on.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let daemon = bootstrap(&host, &server).await.unwrap();
    wait_for_requests(&server, "node-csr-", 2).await.unwrap();
    wait_until_ready(&daemon, &["own"]).await.unwrap();
    assert_eq!(containers_of(&host, "own").len(), 1, "it was never restarted");
    daemon.stop().await.unwrap();
}

//! The daemon as a node of a cluster with missing or late credentials: pods come first.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{FakeApiServer, Look, wait_for};
use k8s_openapi::api::core::v1::Node;

use crate::support::{LATER, wait_for_complaint, wait_for_log, wait_until_ready, write_pods};

/// A kubeconfig of the server's, whose user is this.
fn kubeconfig(server: &FakeApiServer, user: &str) -> String {
    let whole = server.kubeconfig();
    assert!(whole.contains("{name: node}"), "{whole}");
    whole.replacen("{name: node}", &format!("{{name: node, user: {user}}}"), 1)
}

async fn wait_until_registered(server: &FakeApiServer, host: &FakeHost) -> Result<()> {
    wait_for("the Node", LATER, async || {
        let node = server.api().get::<Node>(&format!("/api/v1/nodes/{}", host.node()));
        Ok(node.map_or(Look::NotYet("none".to_owned()), |_| Look::Done(())))
    })
    .await
}

#[tokio::test]
async fn a_hanging_then_failing_plugin_blocks_no_pod_and_is_used_once_it_works() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    write_pods(&host, &["own"]).unwrap();
    let plugin = host.directory().join("plugin");
    let write = |script: &str| {
        let new = host.directory().join("plugin.new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &plugin).unwrap();
    };
    let go = host.directory().join("go");
    write(&format!(
        "while [ ! -e {} ]; do sleep 0.2; done; echo 'no such account' >&2; exit 4",
        go.display()
    ));
    let version = "client.authentication.k8s.io/v1";
    let exec = format!("{{apiVersion: {version}, command: {}, interactiveMode: Never}}", plugin.display());
    let daemon = host.join_by(Some(&kubeconfig(&server, &format!("{{exec: {exec}}}")))).await.unwrap();
    wait_until_ready(&daemon, &["own"]).await.unwrap();
    let is_waiting =
        |text: &str| text.contains("waiting for the credentials") || text.contains("did not exit");
    wait_for_complaint(&daemon, "that credentials are waited for", is_waiting).await.unwrap();

    fs::write(&go, "").unwrap();
    wait_for_complaint(&daemon, "the output of the plugin", |text| text.contains("no such account"))
        .await
        .unwrap();
    wait_for_log(&daemon, "no such account").await.unwrap();

    write(&format!("echo '{{\"apiVersion\": \"{version}\", \"status\": {{\"token\": \"t\"}}}}'"));
    wait_until_registered(&server, &host).await.unwrap();
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_kubeconfig_written_later_is_used() {
    let (host, server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    write_pods(&host, &["own"]).unwrap();
    let daemon = host.join_by(None).await.unwrap();
    wait_until_ready(&daemon, &["own"]).await.unwrap();
    wait_for_complaint(&daemon, "that there is no kubeconfig", |text| text.contains("No such file"))
        .await
        .unwrap();
    let path = host.directory().join("kubeconfig");
    let none = "{client-certificate-data: bm9uZQ==, client-key-data: bm9uZQ==}";
    fs::write(&path, kubeconfig(&server, none)).unwrap();
    wait_for_complaint(&daemon, "what is damaged", |text| text.contains("replace the credentials"))
        .await
        .unwrap();
    fs::write(&path, server.kubeconfig()).unwrap();
    wait_until_registered(&server, &host).await.unwrap();
    daemon.stop().await.unwrap();
}

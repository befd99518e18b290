//! A node that joins with a bootstrap token: its certificate is renewed while its pods run, and replaced when it expired.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::cluster::{Agent, Joining, Node, Tenant};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::{IDLE, LATER, container_id, is_ready, name, pod, run, wait_for_object};

/// How long pods come and go while certificates are renewed; twenty minutes is a whole soak.
fn rotation_time() -> Duration {
    let seconds = std::env::var("HOSTLET_TEST_ROTATION_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(150))
}

/// A tenant with a node that joined with a bootstrap token.
async fn joined(name: &str) -> Result<Tenant> {
    let extra = json!({"rotateCertificates": true});
    Tenant::joining(name, &[Agent::chosen()?], Joining::BootstrapToken, &extra).await
}

/// The certificates that a node got so far, by file.
fn certificates(node: &Node) -> Vec<String> {
    let entries = fs::read_dir(node.certificates()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".pem") && !name.contains("current")).collect();
    names.sort();
    names
}

/// Whether a certificate is expired, as openssl sees it.
fn is_expired(certificate: &Path) -> Result<bool> {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-checkend", "0", "-in"]).arg(certificate);
    Ok(!openssl.output().context("running openssl")?.status.success())
}

#[tokio::test]
async fn a_certificate_is_renewed_while_pods_come_and_go() {
    let mut tenant = joined("renewal").await.unwrap();
    let stays = run(&tenant, pod("stays", IDLE)).await.unwrap();
    let end = Instant::now() + rotation_time();
    let mut number = 0;
    while Instant::now() < end || certificates(&tenant.nodes[0]).len() < 3 {
        number += 1;
        let passing = run(&tenant, pod(&format!("p{number}"), IDLE)).await.unwrap();
        crate::support::delete(&tenant, &name(&passing), Some(0)).await.unwrap();
        assert!(Instant::now() < end + LATER, "{:?}", certificates(&tenant.nodes[0]));
    }
    let client = tenant.client();
    tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    let now = wait_for_object::<Pod>(&tenant.api(), "stays", LATER, is_ready).await.unwrap();
    assert_eq!(container_id(&now), container_id(&stays), "it was never restarted");
}

#[tokio::test]
async fn a_certificate_that_expired_while_the_agent_was_down_is_replaced() {
    let mut tenant = joined("expired").await.unwrap();
    let stays = run(&tenant, pod("stays", IDLE)).await.unwrap();
    tenant.nodes[0].kill_agent().unwrap();
    let current = tenant.nodes[0].certificates().join("kubelet-client-current.pem");
    wait_for("an expired certificate", LATER, async || {
        sleep(Duration::from_secs(1)).await;
        Ok(if is_expired(&current)? { Look::Done(()) } else { Look::NotYet("it is valid".to_owned()) })
    })
    .await
    .unwrap();
    let before = certificates(&tenant.nodes[0]).len();
    tenant.nodes[0].start_agent().unwrap();
    wait_for("another certificate", LATER, async || {
        let all = certificates(&tenant.nodes[0]);
        let is_new = all.len() > before && !is_expired(&current)?;
        Ok(if is_new { Look::Done(()) } else { Look::NotYet(format!("{all:?}")) })
    })
    .await
    .unwrap();
    let client = tenant.client();
    tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    run(&tenant, pod("another", IDLE)).await.unwrap();
    let now = wait_for_object::<Pod>(&tenant.api(), "stays", LATER, is_ready).await.unwrap();
    assert_eq!(container_id(&now), container_id(&stays), "it was never restarted");
}

//! A reboot of a node while the API server is away: its pods return with their ConfigMaps, Secrets and tokens.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hostlet_integration::cluster::{Agent, Tenant};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{
    IDLE, LATER, SOON, container_id, delete, is_ready, pod, run, uid, wait_for_object, wait_until_clean,
};

const PLAIN: &str = "correct horse battery staple";

#[tokio::test]
async fn after_a_reboot_without_the_api_server_a_pod_has_its_objects_and_its_token() {
    if Agent::chosen().unwrap() == Agent::Stock {
        return; // Its pods wait for the API server.
    }
    let mut tenant = Tenant::new("offline", 1).await.unwrap();
    tenant.create::<ConfigMap>(json!({"metadata": {"name": "web"}, "data": {"k": "first"}})).await.unwrap();
    tenant.create::<Secret>(json!({"metadata": {"name": "web"}, "stringData": {"k": PLAIN}})).await.unwrap();
    let mut object =
        pod("web", &format!("test ${{#FROM_SECRET}} -eq {} && test -s /all/token && {IDLE}", PLAIN.len()));
    object["spec"]["containers"][0]["env"] =
        json!([{"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "web", "key": "k"}}}]);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "all", "mountPath": "/all"}]);
    object["spec"]["volumes"] = json!([{"name": "all", "projected": {"sources": [
        {"configMap": {"name": "web", "items": [{"key": "k", "path": "map"}]}},
        {"secret": {"name": "web", "items": [{"key": "k", "path": "secret"}]}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}]);
    let before = run(&tenant, object).await.unwrap();
    let node = &mut tenant.nodes[0];
    let volume = node.root_dir().join("pods").join(uid(&before)).join("volumes/kubernetes.io~projected/all");
    let read = |file: &str| fs::read_to_string(volume.join(file)).unwrap_or_default();
    let token = read("token");
    assert!(token.matches('.').count() == 2, "no token: {token}");

    // An orderly reboot, except for the API server.
    node.stop_agent().await.unwrap();
    for file in stored(&node.root_dir().join("hostlet")) {
        let content = fs::read(&file).unwrap();
        let has = |text: &str| content.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!has(PLAIN) && !has(&token), "{} has a secret in the clear", file.display());
    }
    node.cut_off(true).unwrap();
    node.lose_memory().await.unwrap();
    assert_eq!(read("token"), "", "a reboot takes what is in memory");
    node.start_agent().unwrap();
    let node = &tenant.nodes[0];
    wait_for("the pod runs without the API server", SOON, async || {
        let running = node.host().cri().containers().await?;
        let explained = explain(&tenant, "web");
        let files = ["map", "secret", "token"].map(&read);
        let is_running = running.iter().any(|found| found.state == 1) && !files[2].is_empty();
        Ok(if is_running { Look::Done(()) } else { Look::NotYet(format!("{running:?} {explained}")) })
    })
    .await
    .unwrap();
    assert_eq!([read("map"), read("secret"), read("token")], ["first", PLAIN, &token]);
    let explained = explain(&tenant, "web");
    for named in ["configmap", "secret", "token of serviceaccount"] {
        assert!(explained.contains(named), "{named}: {explained}");
    }

    // The API server has changed meanwhile, and counts again.
    let config = json!({"data": {"k": "second"}});
    tenant.api::<ConfigMap>().patch("web", &PatchParams::default(), &Patch::Merge(config)).await.unwrap();
    node.cut_off(false).unwrap();
    wait_for("the changed ConfigMap and a new token", LATER, async || {
        let (map, now, explained) = (read("map"), read("token"), explain(&tenant, "web"));
        let is_current = map == "second" && now != token && !explained.contains("Without an answer");
        Ok(if is_current { Look::Done(()) } else { Look::NotYet(format!("{map} {explained}")) })
    })
    .await
    .unwrap();
    let runs_again = |pod: &Pod| is_ready(pod) && container_id(pod) != container_id(&before);
    wait_for_object(&tenant.api(), "web", SOON, runs_again).await.unwrap();

    delete(&tenant, "web", None).await.unwrap();
    tenant.api::<Secret>().delete("web", &DeleteParams::default()).await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
}

/// All files below a directory.
fn stored(dir: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { stored(&path) } else { vec![path] }).collect()
}

/// What hostlet says about a pod.
fn explain(tenant: &Tenant, pod: &str) -> String {
    let node = &tenant.nodes[0];
    let program = node.agent().program().unwrap();
    let output = Command::new(program)
        .args(["explain", pod])
        .arg("--socket")
        .arg(node.host().hostlet_socket())
        .output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

//! Upgrades: this version continues with the store of every released one. `integration/golden/stores/` has a store of each, with rows
//! in all tables that it knew; with `HOSTLET_TEST_RECORD=1` the store of the tested program is added.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to fail")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hostlet_cluster::api::fake::{ApiFault, ApiRule};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{FakeApiServer, FakeLogind, Look, program, wait_for};
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_runtime::cri::fake::{OnTerm, Pull, Script};
use hostlet_store::{KEY_CREDENTIAL, Store, Table};
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::CSIDriver;
use serde_json::{Value, json};

use crate::support::{LATER, PODS, SOON, complaints, home, is_ready, manifest_with, store_file};

/// Rows have the name of the node.
const NODE: &str = "upgraded";
const NODE_PATH: &str = "/api/v1/nodes/upgraded";

/// A priority whose pods are left for later by a shutdown.
const CRITICAL: i32 = 2_000_000_000;

/// A CSI driver.
const DRIVER: &str = "csi.example.com";

/// Longer than a test takes, for what is under way when the daemon is killed.
const FOREVER: Duration = Duration::from_secs(2 * 3600);

/// Gives the node a pod.
fn give(server: &FakeApiServer, name: &str, priority: i32, more: &Value) -> Result<()> {
    let mut spec = json!({
        "nodeName": NODE, "restartPolicy": "Always", "terminationGracePeriodSeconds": FOREVER.as_secs(), "priority": priority,
        "containers": [{"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}]
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    server.api().put(&format!("{PODS}/{name}"), &serde_json::from_value::<Pod>(pod)?);
    Ok(())
}

/// One container of this name and image, with further fields.
fn container(name: &str, image: &str, more: Value) -> Value {
    let mut container = json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent"});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"containers": [container]})
}

/// A cluster with what the rows are about, and a Node on which a former kubelet advertised a device.
fn cluster() -> Result<FakeApiServer> {
    let server = FakeApiServer::start()?;
    let node = json!({"metadata": {"name": NODE}, "status": {"capacity": {"example.com/gpu": "2"}}});
    server.api().put(NODE_PATH, &serde_json::from_value::<Node>(node)?);
    Ok(server)
}

/// Gives the host the key of the sealed rows, the same for all.
fn set_key(host: &mut FakeHost) -> Result<()> {
    let credentials = home(host).join("credentials");
    DirBuilder::new().recursive(true).mode(0o700).create(&credentials)?;
    fs::write(credentials.join(KEY_CREDENTIAL), [7; 32])?;
    host.set_variable("CREDENTIALS_DIRECTORY", credentials.display().to_string());
    Ok(())
}

/// A pod with a Secret and a token.
fn secretive() -> Value {
    let key = json!({"secretKeyRef": {"name": "password", "key": "k"}});
    let token =
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}, "name": "token"});
    let more = json!({
        "env": [{"name": "PASSWORD", "valueFrom": key}], "volumeMounts": [{"name": "token", "mountPath": "/token"}],
    });
    let mut spec = container("main", "busybox:1", more);
    spec["serviceAccountName"] = json!("default");
    spec["volumes"] = json!([token]);
    spec
}

/// A volume of a driver that has it attached, which nobody does here, and its claim.
fn put_volume(server: &FakeApiServer) -> Result<()> {
    let driver = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}});
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    server.api().put(&format!("{drivers}/{DRIVER}"), &serde_json::from_value::<CSIDriver>(driver)?);
    let claim = json!({
        "metadata": {"name": "disk", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-disk"}, "status": {"phase": "Bound"},
    });
    let (path, claim) =
        ("/api/v1/namespaces/default/persistentvolumeclaims/disk", serde_json::from_value(claim)?);
    server.api().put::<PersistentVolumeClaim>(path, &claim);
    let uid = server.api().get::<PersistentVolumeClaim>(path).and_then(|claim| claim.metadata.uid);
    let volume = json!({
        "metadata": {"name": "pv-disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "disk", "uid": uid},
            "csi": {"driver": DRIVER, "volumeHandle": "disk-1"},
        },
    });
    let volume: PersistentVolume = serde_json::from_value(volume)?;
    server.api().put("/api/v1/persistentvolumes/pv-disk", &volume);
    Ok(())
}

/// A pod that waits for that volume.
fn attached() -> Value {
    let mounts = json!({"volumeMounts": [{"name": "disk", "mountPath": "/disk"}]});
    let mut spec = container("main", "busybox:1", mounts);
    spec["volumes"] = json!([{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]);
    spec
}

/// A pod with trust anchors.
fn trusting() -> Value {
    let mounts = json!({"volumeMounts": [{"name": "anchors", "mountPath": "/anchors"}]});
    let mut spec = container("main", "busybox:1", mounts);
    let source = json!({"clusterTrustBundle": {"name": "anchors", "path": "anchors.pem"}});
    spec["volumes"] = json!([{"name": "anchors", "projected": {"sources": [source]}}]);
    spec
}

/// Lets a daemon of the tested program write rows into all tables, and kills it. Returns the file.
async fn write_store() -> Result<Vec<u8>> {
    let logind = FakeLogind::start(2 * FOREVER).await?;
    let mut host = FakeHost::named(NODE.to_owned())?;
    host.set_variable("DBUS_SYSTEM_BUS_ADDRESS", logind.address());
    set_key(&mut host)?;
    let server = cluster()?;
    // The devices of a former kubelet are known until this node has been registered.
    let refused = ApiFault::Reject { code: 503, reason: "ServiceUnavailable", retry_after: 0 };
    server.api().fail(ApiRule::always("PATCH", NODE_PATH, refused));
    let service = json!({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 5432, "protocol": "TCP"}]}
    });
    server.api().put("/api/v1/namespaces/default/services/db", &serde_json::from_value::<Service>(service)?);
    let secret = json!({"metadata": {"name": "password", "namespace": "default"}, "data": {"k": "c2VjcmV0"}});
    let secret: Secret = serde_json::from_value(secret)?;
    server.api().put("/api/v1/namespaces/default/secrets/password", &secret);
    let class = json!({"metadata": {"name": "fast"}, "handler": "fast-handler"});
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    server.api().put(&format!("{classes}/fast"), &serde_json::from_value::<RuntimeClass>(class)?);

    put_volume(&server)?;
    let anchor = FakeAuthority::new().certificate()?;
    let anchors = json!({"metadata": {"name": "anchors"}, "spec": {"trustBundle": anchor}});
    let bundles = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    server.api().put(&format!("{bundles}/anchors"), &serde_json::from_value::<ClusterTrustBundle>(anchors)?);

    let runtime = host.runtime();
    runtime.add_image("busybox:1");
    runtime.script("crash", Script::exits(Duration::ZERO, 1));
    runtime.script("done", Script::exits(Duration::ZERO, 0));
    runtime.script("deaf", Script::forever().on_term(OnTerm::Ignores));
    let broken = Some("no route to registry.local".to_owned());
    runtime.script_pull("registry.local/broken:1", Pull { latency: Duration::ZERO, error: broken });
    runtime.script_pull("registry.local/slow:1", Pull { latency: FOREVER, error: None });

    let periods = "shutdownGracePeriod: 2h\nshutdownGracePeriodCriticalPods: 1h\n";
    let daemon = host.join(&server, periods).await?;
    let by = |command: &str| json!({"exec": {"command": [command]}});
    let critical = |name: &str, more: Value| give(&server, name, CRITICAL, &more);
    let mut web = container("main", "busybox:1", json!({"readinessProbe": by("ready")}));
    web["activeDeadlineSeconds"] = json!(86_400);
    critical("web", web)?;
    critical("classy", json!({"runtimeClassName": "fast"}))?;
    critical("secretive", secretive())?;
    critical("attached", attached())?;
    critical("trusting", trusting())?;
    critical("crashing", container("crash", "busybox:1", json!({})))?;
    let twice = ["done", "main"]
        .map(|name| json!({"name": name, "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}));
    critical("once", json!({"restartPolicy": "Never", "containers": twice}))?;
    critical("pulled", container("main", "registry.local/app:1", json!({})))?;
    critical("broken", container("main", "registry.local/broken:1", json!({})))?;
    // Its hook has run; the container ignores that it is to stop.
    critical("restarting", container("deaf", "busybox:1", json!({"lifecycle": {"preStop": by("say")}})))?;
    let ended = container("deaf", "busybox:1", json!({}));
    give(&server, "ended", 0, &ended)?;
    let agent = json!({"priority": CRITICAL, "containers": [{"name": "main", "image": "busybox:1"}]});
    host.write_manifest("agent.json", &manifest_with("agent", agent))?;
    for name in ["web", "classy", "secretive", "trusting", "pulled", "restarting", "ended"] {
        daemon.wait_for_api_pod(name, SOON, is_ready).await?;
    }
    daemon.wait_for_pod("agent", SOON, is_ready).await?;
    daemon.cli(&["restart", "restarting"])?;
    wait_for_rows(&host, |table| ![Table::PullIntents, Table::EndedByShutdown].contains(&table)).await?;
    // Pulls are serial, so only after the others.
    critical("pulling", container("main", "registry.local/slow:1", json!({})))?;
    wait_for_rows(&host, |table| table != Table::EndedByShutdown).await?;
    // Only the pod that is not critical ends at first.
    logind.prepare(true)?;
    wait_for_rows(&host, |_| true).await?;
    daemon.kill()?;
    fs::read(store_file(&host)).context("reading the store")
}

/// Waits until these tables have rows in the file.
async fn wait_for_rows(host: &FakeHost, is_wanted: impl Fn(Table) -> bool) -> Result<()> {
    wait_for("rows in all tables of the store", LATER, async || {
        // The daemon may write it at this moment.
        let store = match Store::read(&store_file(host)) {
            Ok(store) => store,
            Err(error) => return Ok(Look::NotYet(format!("{error:?}"))),
        };
        let empty: Vec<Table> = Table::ALL
            .into_iter()
            // Not everybody may read the kernel's log.
            .filter(|table| *table != Table::KernelLog && is_wanted(*table) && store.keys(*table).is_empty())
            .collect();
        Ok(if empty.is_empty() { Look::Done(()) } else { Look::NotYet(format!("without rows: {empty:?}")) })
    })
    .await
}

/// Starts the tested program with this store, on a host that has booted and that does not reach its API server; then the API server
/// answers, and has none of the pods any more. So everything that was stored is used.
async fn is_continued(store: &[u8]) -> Result<()> {
    let mut host = FakeHost::named(NODE.to_owned())?;
    DirBuilder::new().recursive(true).mode(0o700).create(home(&host))?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(store_file(&host))?.write_all(store)?;
    set_key(&mut host)?;
    // Those of earlier versions have none.
    let has_anchors = !Store::read(&store_file(&host))?.keys(Table::OfflineTrustBundles).is_empty();
    let has_secrets = !Store::read(&store_file(&host))?.keys(Table::OfflineObjects).is_empty();
    host.runtime().add_image("busybox:1");
    let mut server = cluster()?;
    server.stop();
    let daemon = host.join(&server, "").await?;
    for name in ["web", "classy", "pulled"] {
        daemon.wait_for_api_pod(name, SOON, is_ready).await?;
    }
    if has_secrets {
        daemon.wait_for_api_pod("secretive", SOON, is_ready).await?;
        let environment = environment(&host, "secretive");
        assert!(environment.contains(&("PASSWORD".to_owned(), "secret".to_owned())), "{environment:?}");
    }
    if has_anchors {
        daemon.wait_for_api_pod("trusting", SOON, is_ready).await?;
    }
    // All of them are worked on, whatever they waited for.
    for name in ["crashing", "once", "broken", "pulling", "restarting"] {
        wait_for(&format!("the sandbox of {name}"), SOON, async || {
            let is_made = !sandboxes(&host, name).is_empty();
            Ok(if is_made { Look::Done(()) } else { Look::NotYet("no sandbox".to_owned()) })
        })
        .await?;
    }
    let said = complaints(&daemon)?;
    assert!(!said.contains("The store: "), "{said}");
    let environment = environment(&host, "web");
    assert!(environment.contains(&("DB_SERVICE_HOST".to_owned(), "10.96.0.9".to_owned())), "{environment:?}");
    let handlers: Vec<String> = sandboxes(&host, "classy").into_iter().map(|(_, handler)| handler).collect();
    assert_eq!(handlers, ["fast-handler"]);
    assert!(sandboxes(&host, "ended").is_empty(), "a pod that a shutdown ended was started");

    server.resume()?;
    wait_for("the devices of the former kubelet are set to zero", SOON, async || {
        let node = server.api().get::<Node>(NODE_PATH);
        let capacity = node.and_then(|node| node.status?.capacity).unwrap_or_default();
        let is_zero = capacity.get("example.com/gpu").is_some_and(|quantity| quantity.0 == "0");
        Ok(if is_zero { Look::Done(()) } else { Look::NotYet(format!("{capacity:?}")) })
    })
    .await?;
    for name in ["web", "classy", "trusting", "crashing", "once", "pulled", "broken", "pulling", "restarting"]
    {
        wait_for(&format!("the end of {name}"), SOON, async || {
            let left = sandboxes(&host, name);
            Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{left:?}")) })
        })
        .await?;
    }
    let log = daemon.log();
    assert!(!log.contains("cannot decode a row of the store"), "{log}");
    daemon.stop().await?;
    Ok(())
}

/// The sandboxes of a pod in the runtime: ID and handler.
fn sandboxes(host: &FakeHost, pod: &str) -> Vec<(String, String)> {
    let sandboxes = host.runtime().wire_sandboxes().into_iter();
    let own =
        sandboxes.filter(|sandbox| sandbox.metadata.as_ref().is_some_and(|metadata| metadata.name == pod));
    own.map(|sandbox| (sandbox.id, sandbox.runtime_handler)).collect()
}

/// The variables of a pod's containers.
fn environment(host: &FakeHost, pod: &str) -> Vec<(String, String)> {
    let containers = host.runtime().wire_containers().into_iter();
    let own = containers.filter(|c| c.labels.get("io.kubernetes.pod.name").is_some_and(|name| name == pod));
    let configs = own.filter_map(|c| host.runtime().container_config(&c.id.as_str().into()));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    configs.flat_map(|config| config.envs).map(|variable| (variable.key, text(variable.value))).collect()
}

fn recorded_stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/stores")
}

/// Adds the store of the tested program. That of a version that was released is never replaced.
fn record(store: &[u8]) -> Result<()> {
    let said = Command::new(program()?).arg("--version").output().context("asking for the version")?;
    let version = String::from_utf8(said.stdout)?.trim().trim_start_matches("hostlet ").to_owned();
    fs::create_dir_all(recorded_stores())?;
    let path = recorded_stores().join(format!("{version}.redb.gz"));
    let file = File::create_new(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut encoder = GzEncoder::new(file, Compression::best());
    encoder.write_all(store)?;
    encoder.finish()?;
    Ok(())
}

/// One test, because the name of its node is that in the rows.
#[tokio::test]
async fn a_store_of_each_version_is_continued() {
    let own = write_store().await.unwrap();
    if std::env::var_os("HOSTLET_TEST_RECORD").is_some() {
        record(&own).unwrap();
    }
    is_continued(&own).await.context("the store of this version").unwrap();
    let mut recorded: Vec<_> =
        fs::read_dir(recorded_stores()).unwrap().map(|entry| entry.unwrap().path()).collect();
    recorded.sort();
    assert!(!recorded.is_empty(), "no recorded stores");
    for path in recorded {
        let mut store = Vec::new();
        GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut store).unwrap();
        is_continued(&store).await.with_context(|| path.display().to_string()).unwrap();
    }
}

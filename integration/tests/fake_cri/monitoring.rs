//! The Grafana dashboard and the Prometheus rules in `packaging/monitoring/` on a live node: each query finds its series.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hostlet_base::Quantity;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::monitoring::{Evaluated, can_evaluate, evaluate};
use hostlet_integration::{FakeApiServer, Look, wait_for};
use hostlet_plugins::fake::{FakePlugin, dra_driver};
use hostlet_runtime::cri::fake::{Exec, Fault, Pull, Rule};
use hostlet_runtime::cri::{ExecOutput, Operation};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::dashboards::bind_claim;
use crate::support::{LATER, PODS, SOON, is_ready, wait_for_shown};

/// What a target responds at each path that docs/metrics.md has Prometheus scrape.
const TARGETS: [&str; 3] = ["/metrics", "/metrics/probes", "/metrics/cadvisor"];

/// The metrics of which this node has no series.
const ABSENT: [&str; 2] =
    // Both with serverTLSBootstrap only, which needs somebody who approves requests.
    ["kubelet_certificate_manager_server_ttl_seconds", "kubelet_server_expiration_renew_errors"];

/// Those of which a host with cgroup v1 has none.
const OF_CGROUP_V2: &str = "container_pressure_";

/// Assigns a pod to the node. Returns its UID.
fn give(server: &FakeApiServer, host: &FakeHost, name: &str, more: Value) -> Result<String> {
    let mut spec = json!({
        "nodeName": host.node(), "restartPolicy": "Always", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "busybox:1", "imagePullPolicy": "Always"}]
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let created = jiff::Timestamp::now().to_string();
    let metadata = json!({"name": name, "namespace": "default", "creationTimestamp": created});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec}))?;
    server.api().put(&format!("{PODS}/{name}"), &pod).metadata.uid.context("a pod without a UID")
}

/// A container with more in its spec.
fn containers(more: Value) -> Value {
    let mut container = json!({"name": "main", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"});
    for (field, value) in more.as_object().into_iter().flatten() {
        container[field] = value.clone();
    }
    json!({"containers": [container]})
}

fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed"))
}

/// Ends the container of a pod.
fn end(host: &FakeHost, pod: &str, code: i32) -> Result<()> {
    let containers = host.runtime().wire_containers();
    let own =
        containers.iter().filter(|c| c.labels.get("io.kubernetes.pod.name").is_some_and(|name| name == pod));
    let newest = own.max_by_key(|c| c.created_at).with_context(|| format!("{pod} has no container"))?;
    match code {
        137 => host.runtime().oom_kill_container(&newest.id.clone().into()),
        code => host.runtime().exit_container(&newest.id.clone().into(), code),
    }
    Ok(())
}

/// Thousandths of a CPU that pods may request.
fn allocatable_cpus(host: &FakeHost, server: &FakeApiServer) -> Result<i64> {
    let node = server.api().get::<Node>(&format!("/api/v1/nodes/{}", host.node())).context("no Node")?;
    let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
    Ok(Quantity::parse(&allocatable.get("cpu").context("no CPUs")?.0)?.milli_value())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Everything that goes wrong on a node and is counted.
async fn misfortunes(host: &FakeHost, server: &mut FakeApiServer) -> Result<()> {
    let failing = ExecOutput { stdout: b"no".to_vec(), stderr: Vec::new(), exit_code: 1 };
    host.runtime().script_exec(&["ready"], Exec { takes: Duration::ZERO, output: failing });
    let probe = json!({"readinessProbe": {"exec": {"command": ["ready"]}, "periodSeconds": 1}});
    give(server, host, "probed", containers(probe))?;
    host.runtime().faults().add(Rule::new(Operation::StartContainer, Fault::fail("no")).times(1));
    give(server, host, "broken", json!({}))?;
    // One waits for its image, one for its volume.
    let absent = Pull { latency: Duration::ZERO, error: Some("no such image".to_owned()) };
    host.runtime().script_pull("none:1", absent);
    give(server, host, "pulling", containers(json!({"image": "none:1"})))?;
    give(server, host, "waiting", json!({"volumes": [{"name": "v", "secret": {"secretName": "none"}}]}))?;
    give(server, host, "misplaced", json!({"nodeSelector": {"no": "such"}}))?;
    wait_for_shown(server, "misplaced", has_failed).await?;
    for name in ["crash", "hungry"] {
        give(server, host, name, json!({}))?;
        wait_for_shown(server, name, is_ready).await?;
    }
    end(host, "crash", 1)?;
    end(host, "hungry", 137)?;
    let volume = json!({"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]});
    let pod = host.directory().join("kubelet/pods").join(give(server, host, "full", volume)?);
    wait_for_shown(server, "full", is_ready).await?;
    let file = pod.join("volumes/kubernetes.io~empty-dir/data/file");
    fs::write(file, vec![1; 2 << 20]).context("filling a volume")?;
    wait_for_shown(server, "full", has_failed).await?;
    // One takes nearly all CPUs, and an important one takes them from it.
    let cpus = allocatable_cpus(host, server)?;
    let requests = |cpu: String| json!({"resources": {"requests": {"cpu": cpu}}});
    give(server, host, "filler", containers(requests(format!("{}m", cpus - 100))))?;
    wait_for_shown(server, "filler", is_ready).await?;
    let mut critical = containers(requests("500m".to_owned()));
    critical["priority"] = json!(2_000_001_000);
    give(server, host, "critical", critical)?;
    wait_for_shown(server, "critical", is_ready).await?;
    server.stop();
    wait_for("a lost connection", SOON, async || {
        let text = crate::metrics::get(&host.socket().to_string_lossy(), "/metrics")?;
        let is_counted = text.contains("rest_client_requests_total{code=\"<error>\"");
        Ok(if is_counted { Look::Done(()) } else { Look::NotYet(text) })
    })
    .await?;
    server.resume()
}

/// What a target responds. HTTP/1.0, so that the body is not in chunks.
fn response(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{path}: {text}"))?;
    ensure!(head.contains(" 200 "), "{path}: {text}");
    Ok(body.to_owned())
}

fn scrape(port: u16, dir: &Path, number: usize) -> Result<()> {
    for path in TARGETS {
        let name = format!("{number}{}", path.replace('/', "-"));
        fs::write(dir.join(name), response(port, path)?).context("writing a scrape")?;
    }
    Ok(())
}

/// The queries without series that should have some, and the reverse.
fn wrong(evaluated: &[Evaluated]) -> Vec<&Evaluated> {
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let is_right = |query: &&Evaluated| {
        let is_absent = ABSENT.iter().any(|name| query.query.contains(name));
        let may_be_absent = !is_v2 && query.query.contains(OF_CGROUP_V2);
        (query.series > 0) != is_absent || may_be_absent
    };
    evaluated.iter().filter(|query| !is_right(query)).collect()
}

#[tokio::test]
async fn each_query_of_the_dashboard_and_of_the_rules_finds_its_series_on_a_live_node() {
    if !can_evaluate() {
        assert!(
            std::env::var_os("HOSTLET_TEST_ALL").is_none(),
            "Prometheus' engine is built with Go (https://go.dev/dl/)"
        );
        eprintln!(
            "NOT TESTED: packaging/monitoring on a live node: Prometheus' engine is built with Go (https://go.dev/dl/)"
        );
        return;
    }
    let (host, mut server) = (FakeHost::start().unwrap(), FakeApiServer::start().unwrap());
    host.runtime().add_image("busybox:1");
    fs::write(host.directory().join("kubeconfig"), server.kubeconfig()).unwrap();
    let (port, read_only) = (free_port().unwrap(), free_port().unwrap());
    let flags = [
        "--enable-server=true".to_owned(),
        "--address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--read-only-port={read_only}"),
    ];
    let daemon = host.join_with(&flags, "").await.unwrap();
    bind_claim(&host, &server, "data").unwrap();
    let claim = json!({"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "data"}}]});
    give(&server, &host, "web", claim).unwrap();
    wait_for_shown(&server, "web", is_ready).await.unwrap();
    let socket = host.directory().join("kubelet/plugins_registry/bad.sock");
    let _plugin = FakePlugin::start(&socket, dra_driver("Not A Name", &socket)).unwrap();
    misfortunes(&host, &mut server).await.unwrap();

    let dir = tempfile::tempdir().unwrap();
    let mut number = 0;
    wait_for("series of each query", LATER, async || {
        scrape(read_only, dir.path(), number)?;
        number += 1;
        let name = format!("pod-{number}");
        give(&server, &host, &name, json!({}))?;
        wait_for_shown(&server, &name, is_ready).await?;
        scrape(read_only, dir.path(), number)?;
        server.api().delete(&format!("{PODS}/{name}"), Some(1));
        let evaluated = evaluate(dir.path())?;
        ensure!(evaluated.len() > 70, "these are all: {evaluated:#?}");
        let wrong = wrong(&evaluated);
        Ok(if wrong.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{wrong:#?}")) })
    })
    .await
    .unwrap();
    daemon.stop().await.unwrap();
}

//! What pods and the node use: in every answer of the node's API, and through the metrics server in `kubectl top`.

use anyhow::{Context, Result};
use hostlet_integration::cluster::{Agent, MetricsServer, Tenant};
use hostlet_integration::{Look, wait_for};
use serde_json::{Value, json};

use crate::support::{LATER, pod, run};

/// Holds 32 MiB of memory, and then uses the CPU without end.
const BUSY: &str = "dd if=/dev/zero of=/memory/file bs=1M count=32; while :; do :; done";
const MIB: u64 = 1 << 20;

/// A pod that is busy and may use a part of a core.
fn busy(name: &str) -> Value {
    let mut pod = pod(name, BUSY);
    let container = &mut pod["spec"]["containers"][0];
    container["volumeMounts"] = json!([{"name": "memory", "mountPath": "/memory"}]);
    container["resources"] = json!({"limits": {"cpu": "200m", "memory": "128Mi"}});
    pod["spec"]["volumes"] = json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]);
    pod
}

/// What the first node's API answers, through the API server.
pub(crate) async fn ask(tenant: &Tenant, path: &str) -> Result<String> {
    let node = tenant.nodes[0].name();
    let request = http::Request::get(format!("/api/v1/nodes/{node}/proxy/{path}")).body(Vec::new())?;
    tenant.client().request_text(request).await.with_context(|| format!("asking for {path}"))
}

pub(crate) async fn summary(tenant: &Tenant, query: &str) -> Result<Value> {
    Ok(serde_json::from_str(&ask(tenant, &format!("stats/summary{query}")).await?)?)
}

/// The pod of this name in a summary.
pub(crate) fn pod_in<'a>(summary: &'a Value, name: &str) -> Option<&'a Value> {
    summary["pods"].as_array()?.iter().find(|pod| pod["podRef"]["name"] == name)
}

/// The value of the first sample with this name and these labels.
pub(crate) fn sample(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has =
        |line: &&str| labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")));
    let line = text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).find(has)?;
    line.rsplit_once('}')?.1.split_whitespace().next()?.parse().ok()
}

#[tokio::test]
async fn what_a_pod_uses_is_in_every_answer() {
    let tenant = Tenant::new("stats", 1).await.unwrap();
    run(&tenant, busy("busy")).await.unwrap();
    let summary = wait_for("a summary with the use of the pod", LATER, async || {
        let summary = summary(&tenant, "").await?;
        let Some(pod) = pod_in(&summary, "busy") else { return Ok(Look::NotYet("no such pod".to_owned())) };
        let container = &pod["containers"][0];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let is_seen = [pod, container].iter().all(|unit| {
            number(&unit["cpu"]["usageCoreNanoSeconds"]) > 1_000_000_000
                && number(&unit["cpu"]["usageNanoCores"]) > 20_000_000
                && number(&unit["memory"]["workingSetBytes"]) > 32 * MIB
        });
        // The stock kubelet measures volumes each minute.
        let has_volume = pod["volume"].as_array().is_some_and(|volumes| {
            volumes
                .iter()
                .any(|volume| volume["name"] == "memory" && number(&volume["usedBytes"]) >= 32 * MIB)
        });
        Ok(if is_seen && has_volume { Look::Done(summary.clone()) } else { Look::NotYet(pod.to_string()) })
    })
    .await
    .unwrap();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (node, pod) = (&summary["node"], pod_in(&summary, "busy").unwrap());
    let container = &pod["containers"][0];
    // Limited to a fifth of a core; a measurement on a busy machine may be late.
    assert!(number(&container["cpu"]["usageNanoCores"]) < 400_000_000, "{container}");
    assert!(number(&container["memory"]["workingSetBytes"]) < 128 * MIB, "{container}");
    let available = number(&container["memory"]["availableBytes"]);
    assert_eq!(available + number(&container["memory"]["workingSetBytes"]), 128 * MIB, "{container}");
    for part in ["rootfs", "logs"] {
        assert!(number(&container[part]["capacityBytes"]) > 0, "{container}");
    }
    assert!(number(&pod["ephemeral-storage"]["capacityBytes"]) > 0, "{pod}");
    for part in ["cpu", "memory", "network", "fs", "runtime", "rlimit", "swap", "startTime"] {
        assert!(node.get(part).is_some(), "no {part} in {node}");
    }
    assert!(number(&node["memory"]["workingSetBytes"]) > 32 * MIB, "{node}");

    let brief = self::summary(&tenant, "?only_cpu_and_memory=true").await.unwrap();
    let brief = pod_in(&brief, "busy").unwrap();
    assert!(number(&brief["containers"][0]["memory"]["workingSetBytes"]) > 32 * MIB, "{brief}");
    assert_eq!((brief.get("volume"), brief["containers"][0].get("rootfs")), (None, None), "{brief}");

    let of_pod = [("pod", "busy"), ("namespace", tenant.namespace())];
    let of_container = [of_pod[0], of_pod[1], ("container", "main")];
    let resource = ask(&tenant, "metrics/resource").await.unwrap();
    assert!(sample(&resource, "container_cpu_usage_seconds_total", &of_container).unwrap() > 1.0);
    assert!(
        sample(&resource, "container_memory_working_set_bytes", &of_container).unwrap()
            > 32.0 * 1024.0 * 1024.0
    );
    assert!(sample(&resource, "pod_cpu_usage_seconds_total", &of_pod).unwrap() > 1.0);
    assert!(resource.lines().any(|line| line == "resource_scrape_error 0"), "{resource}");

    // cAdvisor does not find the containers of a runtime with an unusual socket.
    let labels = match tenant.nodes[0].agent() {
        Agent::Hostlet => &of_container[..],
        Agent::Stock => &of_pod[..],
    };
    let cadvisor = ask(&tenant, "metrics/cadvisor").await.unwrap();
    assert!(sample(&cadvisor, "container_cpu_usage_seconds_total", labels).unwrap() > 1.0);
    assert!(
        sample(&cadvisor, "container_memory_working_set_bytes", labels).unwrap() > 32.0 * 1024.0 * 1024.0
    );
    assert!(sample(&cadvisor, "container_spec_cpu_quota", labels).is_some());
    assert!(sample(&cadvisor, "machine_memory_bytes", &[]).unwrap() > 0.0);
    if tenant.nodes[0].agent() == Agent::Hostlet {
        // The pod has received something when its network was set up, and its sandbox has an image.
        let interface = [of_pod[0], of_pod[1], ("interface", "eth0")];
        assert!(
            sample(&cadvisor, "container_network_receive_bytes_total", &interface).is_some(),
            "{cadvisor}"
        );
        let line = cadvisor.lines().find(|line| {
            line.starts_with("container_network_receive_bytes_total") && line.contains("pod=\"busy\"")
        });
        assert!(!line.unwrap().contains("image=\"\""), "{line:?}");
    }
}

#[tokio::test]
async fn kubectl_top_shows_pods_and_nodes_through_the_metrics_server() {
    let tenant = Tenant::new("top", 1).await.unwrap();
    run(&tenant, busy("busy")).await.unwrap();
    let server = MetricsServer::start(tenant.cluster()).unwrap();
    let top = |args: &[&str]| -> Look<Vec<String>> {
        match tenant.cluster().kubectl(args) {
            Ok(text) => Look::Done(text.split_whitespace().map(str::to_owned).collect()),
            Err(error) => Look::NotYet(format!("{error:#}; {}", server.log.display())),
        }
    };
    let line = wait_for("kubectl top pod", LATER, async || {
        let args = ["top", "pod", "busy", "--namespace", tenant.namespace(), "--containers", "--no-headers"];
        Ok(match top(&args) {
            // Two questions to the kubelet later.
            Look::Done(line) if line.get(2).is_some_and(|cpu| cpu == "0m") => Look::NotYet(line.join(" ")),
            other => other,
        })
    })
    .await
    .unwrap();
    let number = |text: &str, unit: &str| text.strip_suffix(unit).and_then(|text| text.parse::<u64>().ok());
    assert_eq!((line[0].as_str(), line[1].as_str()), ("busy", "main"), "{line:?}");
    assert!((20..400).contains(&number(&line[2], "m").unwrap()), "{line:?}");
    assert!((32..128).contains(&number(&line[3], "Mi").unwrap()), "{line:?}");
    let node = tenant.nodes[0].name();
    let line = wait_for("kubectl top node", LATER, async || Ok(top(&["top", "node", node, "--no-headers"])))
        .await
        .unwrap();
    assert_eq!(line[0], node, "{line:?}");
    assert!(number(&line[1], "m").unwrap() > 0 && number(&line[3], "Mi").unwrap() > 32, "{line:?}");
}

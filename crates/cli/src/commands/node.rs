//! `hostlet node`: what this node is, what it offers to pods, and its contact with the API server.

use std::collections::BTreeSet;
use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_base::{Quantity as BaseQuantity, human_duration};
use hostlet_engine::grants::NumaView;
use hostlet_serve::server::NodeReport;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::client::{DaemonArgs, node as ask};
use super::error::CommandError;
use super::exit::Exit;
use super::explain::lanes;
use super::objects::{ObjectFormat, write_object};

const NONE: &str = "<none>";

/// Arguments of `hostlet node`.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// Print an object
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon to ask
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet node`. Fails if the node is not ready.
pub async fn node(args: NodeArgs) -> Result<Exit, CommandError> {
    let report = ask(&args.daemon.socket()).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &report)?,
        None => write!(out, "{}", text(&report, Timestamp::now()))?,
    }
    Ok(if is_ready(&report) { Exit::Ok } else { Exit::Failed })
}

fn is_ready(report: &NodeReport) -> bool {
    let status = report.description.node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn text(report: &NodeReport, now: Timestamp) -> String {
    let description = &report.description;
    let node = &description.node;
    let status = node.status.clone().unwrap_or_default();
    let info = status.node_info.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let readiness = if is_ready(report) { "ready" } else { "NOT ready" };
    let mut text = format!("Node {name}: {readiness}\n");
    let mut line = |label: &str, value: String| text.push_str(&format!("  {label:<12} {value}\n"));
    let addresses: Vec<String> =
        status.addresses.iter().flatten().map(|a| format!("{} ({})", a.address, a.type_)).collect();
    line("addresses:", if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") });
    line("system:", format!("{}, kernel {}, {}", info.os_image, info.kernel_version, info.architecture));
    line("runtime:", info.container_runtime_version);
    match &report.api_server {
        None => line("API server:", "none: this host is standalone".to_owned()),
        Some(contact) => {
            let last = contact.last_response.map_or_else(
                || "it has not answered yet".to_owned(),
                |at| format!("it last answered {} ago", human_duration(now.duration_since(at))),
            );
            line(
                "API server:",
                contact.problem.as_ref().map_or(last.clone(), |why| format!("{last}; {why}")),
            );
            if let Some(certificate) = &contact.certificate {
                line("certificate:", certificate.state.clone());
            }
        }
    }
    text.push_str("\nConditions:\n");
    let rows = status.conditions.iter().flatten().map(|condition| {
        let value = |text: &Option<String>| text.clone().unwrap_or_default().replace('\n', " ");
        [
            condition.type_.clone(),
            condition.status.clone(),
            value(&condition.reason),
            value(&condition.message),
        ]
    });
    text.push_str(&table(["CONDITION", "STATUS", "REASON", "MESSAGE"], rows));
    text.push_str("\nResources:\n");
    let amount = |list: &Option<std::collections::BTreeMap<String, Quantity>>, name: &str| {
        list.as_ref().and_then(|list| list.get(name)).map(|amount| amount.0.clone()).unwrap_or_default()
    };
    let lists = [&status.capacity, &status.allocatable];
    let mut names: BTreeSet<&String> = lists.into_iter().flatten().flat_map(|list| list.keys()).collect();
    names.extend(description.reserved.keys());
    let rows = names.into_iter().map(|name| {
        let of =
            |map: &std::collections::BTreeMap<String, String>| map.get(name).cloned().unwrap_or_default();
        [
            name.clone(),
            amount(&status.capacity, name),
            of(&description.reserved),
            of(&description.eviction_thresholds),
            amount(&status.allocatable, name),
        ]
    });
    text.push_str(&table(["RESOURCE", "CAPACITY", "RESERVED", "EVICTION", "ALLOCATABLE"], rows));
    if !description.limits.is_empty() {
        text.push_str("\nLimits of cgroups:\n");
        let rows = description.limits.iter().map(|limit| {
            let amounts: Vec<String> =
                limit.amounts.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
            let state =
                limit.problem.as_ref().map_or("in force".to_owned(), |why| format!("NOT in force: {why}"));
            [limit.of.clone(), limit.cgroup.clone(), amounts.join(", "), state.replace('\n', " ")]
        });
        text.push_str(&table(["OF", "CGROUP", "LIMIT", "STATE"], rows));
    }
    if !description.signals.is_empty() {
        text.push_str("\nEviction signals:\n");
        let rows = description.signals.iter().map(|(name, look)| {
            let set = |limit: &Option<String>| limit.clone().unwrap_or_default();
            let age = format!("{} ago", human_duration(now.duration_since(look.at)));
            let (hard, soft) = (set(&look.threshold), set(&look.soft_threshold));
            [name.clone(), look.available.clone(), look.capacity.clone(), hard, soft, age]
        });
        text.push_str(&table(["SIGNAL", "AVAILABLE", "CAPACITY", "HARD", "SOFT", "SEEN"], rows));
    }
    if let Some(numa) = &report.numa {
        text.push_str(&numa_text(numa));
    }
    if let Some(contact) = &report.api_server {
        text.push_str(&format!("\nConnections to the API server:\n{}", lanes(&contact.connections)));
    }
    text
}

/// What containers have for themselves, and what is left.
fn numa_text(numa: &NumaView) -> String {
    let mut text = "\nExclusive CPUs and memory:\n".to_owned();
    let rows = numa.holders.iter().map(|holder| {
        let blocks = holder.memory.iter().map(|block| {
            let nodes: Vec<String> = block.numa_affinity.iter().map(u32::to_string).collect();
            format!("{} {} of NUMA node {}", block.resource, amount(block.size), nodes.join(","))
        });
        let memory = blocks.collect::<Vec<_>>().join(", ");
        [
            holder.pod.clone().unwrap_or_else(|| holder.uid.clone()),
            holder.container.clone().unwrap_or_else(|| "<pod>".to_owned()),
            holder.cpus.clone().unwrap_or_else(|| NONE.to_owned()),
            if memory.is_empty() { NONE.to_owned() } else { memory },
        ]
    });
    match numa.holders.is_empty() {
        true => text.push_str("  No container has any.\n"),
        false => text.push_str(&table(["POD", "CONTAINER", "CPUS", "MEMORY"], rows)),
    }
    if let Some(cpus) = &numa.shared_cpus {
        text.push_str(&format!("  All other containers share the CPUs {cpus}.\n"));
    }
    if !numa.memory.is_empty() {
        let rows = numa.memory.iter().map(|of| {
            [of.numa_node.to_string(), of.resource.clone(), amount(of.allocatable), amount(of.free)]
        });
        text.push('\n');
        text.push_str(&table(["NUMA NODE", "RESOURCE", "ALLOCATABLE", "FREE"], rows));
    }
    text
}

/// Bytes with an exact suffix.
fn amount(bytes: u64) -> String {
    BaseQuantity::bytes(bytes).to_string()
}

/// Aligned columns, indented.
fn table<const N: usize>(heading: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_described_on_one_page() {
        let report: NodeReport = serde_json::from_value(serde_json::json!({
            "node": {"metadata": {"name": "node1"}, "status": {
                "addresses": [{"address": "192.0.2.1", "type": "InternalIP"}],
                "capacity": {"cpu": "4", "memory": "8Gi"},
                "allocatable": {"cpu": "3500m", "memory": "7Gi"},
                "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "why\nnot"}],
            }},
            "reserved": {"cpu": "500m", "pid": "100"},
            "evictionThresholds": {"memory": "100Mi"},
            "limits": [
                {"of": "pods", "cgroup": "/kubepods", "amounts": {"cpu": "3500m", "memory": "7Gi"}, "problem": "it is\nbusy"},
                {"of": "kube-reserved", "cgroup": "/kube", "amounts": {"cpu": "500m"}},
            ],
            "signals": {"pid.available": {"at": "1970-01-01T00:01:25Z", "available": "30k", "capacity": "32k",
                "threshold": "1k", "softThreshold": null}},
            "apiServer": {"lastResponse": "1970-01-01T00:00:00Z", "connections": [],
                "certificate": {"state": "It is valid for 3 days.", "isProblem": false}},
        }))
        .unwrap();
        let text = text(&report, Timestamp::from_second(90).unwrap());
        assert!(text.starts_with("Node node1: NOT ready\n"), "{text}");
        for part in [
            "192.0.2.1 (InternalIP)",
            "it last answered 90s ago",
            "certificate: It is valid for 3 days.",
            "KubeletNotReady  why not\n",
            "pods           /kubepods  cpu 3500m, memory 7Gi  NOT in force: it is busy\n",
            "kube-reserved  /kube      cpu 500m               in force\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let row = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("cpu"), ["cpu", "4", "500m", "3500m"]);
        assert_eq!(row("memory"), ["memory", "8Gi", "100Mi", "7Gi"]);
        assert_eq!(row("pid "), ["pid", "100"]);
        assert_eq!(row("pid.available"), ["pid.available", "30k", "32k", "1k", "5s", "ago"]);
        assert!(!is_ready(&report) && !text.contains("Exclusive"));
    }

    #[test]
    fn exclusive_cpus_and_memory_are_shown_with_who_has_them() {
        let numa = |holders: serde_json::Value| -> NumaView {
            let memory = serde_json::json!([{"numaNode": 1, "resource": "memory", "allocatable": 3_u64 << 30, "free": 2_u64 << 30}]);
            serde_json::from_value(
                serde_json::json!({"sharedCpus": "0-1,5", "memory": memory, "holders": holders}),
            )
            .unwrap()
        };
        let block = serde_json::json!({"numaAffinity": [0, 1], "type": "memory", "size": 1_u64 << 30});
        let shown = numa_text(&numa(serde_json::json!([
            {"uid": "u1", "pod": "ml/train", "container": "main", "cpus": "2-3", "memory": [block]},
            {"uid": "u2", "cpus": "4"},
        ])));
        assert_eq!(
            shown,
            "\nExclusive CPUs and memory:\n\
             \x20 POD       CONTAINER  CPUS  MEMORY\n\
             \x20 ml/train  main       2-3   memory 1Gi of NUMA node 0,1\n\
             \x20 u2        <pod>      4     <none>\n\
             \x20 All other containers share the CPUs 0-1,5.\n\
             \n\
             \x20 NUMA NODE  RESOURCE  ALLOCATABLE  FREE\n\
             \x20 1          memory    3Gi          2Gi\n"
        );
        assert!(numa_text(&numa(serde_json::json!([]))).contains("No container has any."));
    }
}

//! `hostlet devices`: the devices of device plugins on this node, as a table, JSON or YAML.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_base::human_duration;
use hostlet_devices::{DeviceView, HolderView, ResourceView};
use hostlet_serve::server::DevicesView;
use jiff::Timestamp;

use super::client::{DaemonArgs, devices as list_devices};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};

const NONE: &str = "<none>";

/// Arguments of `hostlet devices`.
#[derive(Clone, Debug, Args)]
pub struct DevicesArgs {
    /// Print whole objects
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet devices`.
pub async fn devices(args: DevicesArgs) -> Result<Exit, CommandError> {
    let view = list_devices(&args.daemon.socket()).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &view)?,
        None => write!(out, "{}", text(&view, Timestamp::now()))?,
    }
    Ok(Exit::Ok)
}

/// A line per resource, a line per device and holder, and a paragraph per problem.
fn text(view: &DevicesView, now: Timestamp) -> String {
    let mut text = match view.resources.as_slice() {
        [] => "No devices of device plugins.\n".to_owned(),
        resources => format!("{}\n{}", resource_table(resources, now), device_table(resources)),
    };
    let awaited = view.resources.iter().filter_map(|resource| resource.awaited.as_ref());
    for awaited in awaited {
        text.push_str(&format!("\nA new pod that needs one {awaited}.\n"));
    }
    for problem in &view.problems {
        text.push_str(&format!("\n{}.\n", problem.trim_end_matches('.')));
    }
    text
}

fn resource_table(resources: &[ResourceView], now: Timestamp) -> String {
    let mut table = table(["RESOURCE", "PLUGIN", "SINCE", "CAPACITY", "ALLOCATABLE", "ALLOCATED"]);
    for resource in resources {
        let allocated = resource.devices.iter().filter(|device| !device.holders.is_empty()).count();
        let since = resource.since.map(|since| human_duration(now.duration_since(since)));
        table.add_row([
            resource.resource.clone(),
            resource.plugin.to_string(),
            since.unwrap_or_else(|| NONE.to_owned()),
            resource.capacity.to_string(),
            resource.allocatable.to_string(),
            allocated.to_string(),
        ]);
    }
    lines(table)
}

fn device_table(resources: &[ResourceView]) -> String {
    let mut table = table(["RESOURCE", "DEVICE", "HEALTH", "NUMA", "POD", "CONTAINER"]);
    for resource in resources {
        for device in &resource.devices {
            let holders: Vec<Option<&HolderView>> = match device.holders.as_slice() {
                [] => vec![None],
                holders => holders.iter().map(Some).collect(),
            };
            for holder in holders {
                table.add_row([
                    resource.resource.clone(),
                    device.id.clone(),
                    device.health.clone(),
                    nodes(device),
                    holder.map_or(NONE, |holder| holder.pod.as_deref().unwrap_or(&holder.uid)).to_owned(),
                    holder.map_or(NONE, |holder| &holder.container).to_owned(),
                ]);
            }
        }
    }
    lines(table)
}

fn nodes(device: &DeviceView) -> String {
    match device.numa_nodes.as_slice() {
        [] => NONE.to_owned(),
        nodes => nodes.iter().map(i64::to_string).collect::<Vec<_>>().join(","),
    }
}

fn table(header: [&str; 6]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn lines(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use hostlet_devices::PluginPhase;

    use super::*;

    #[test]
    fn devices_are_shown_with_who_has_them_and_what_is_wrong() {
        let holder = |pod: Option<&str>, container: &str| HolderView {
            uid: "u1".to_owned(),
            pod: pod.map(str::to_owned),
            container: container.to_owned(),
        };
        let device = |id: &str, health: &str, numa_nodes: &[i64], holders| DeviceView {
            id: id.to_owned(),
            health: health.to_owned(),
            numa_nodes: numa_nodes.to_vec(),
            holders,
        };
        let resource = ResourceView {
            resource: "example.com/gpu".to_owned(),
            plugin: PluginPhase::Registered,
            since: Some(Timestamp::from_second(40).unwrap()),
            sockets: vec!["/d/gpu.sock".to_owned()],
            capacity: 3,
            allocatable: 2,
            awaited: None,
            devices: vec![
                device(
                    "gpu-0",
                    "Healthy",
                    &[0, 1],
                    vec![holder(Some("ml/train"), "init"), holder(None, "main")],
                ),
                device("gpu-1", "Unhealthy", &[], vec![]),
            ],
        };
        let away = ResourceView {
            resource: "example.com/nic".to_owned(),
            plugin: PluginPhase::Away,
            awaited: Some("waits for example.com/nic: its device plugin is not registered".to_owned()),
            devices: Vec::new(),
            ..resource.clone()
        };
        let view = DevicesView {
            resources: vec![resource, away],
            problems: vec!["The checkpoint is damaged".to_owned()],
        };
        assert_eq!(
            text(&view, Timestamp::from_second(100).unwrap()),
            "RESOURCE         PLUGIN      SINCE  CAPACITY  ALLOCATABLE  ALLOCATED\n\
             example.com/gpu  Registered  60s    3         2            1\n\
             example.com/nic  Away        60s    3         2            0\n\
             \n\
             RESOURCE         DEVICE  HEALTH     NUMA    POD       CONTAINER\n\
             example.com/gpu  gpu-0   Healthy    0,1     ml/train  init\n\
             example.com/gpu  gpu-0   Healthy    0,1     u1        main\n\
             example.com/gpu  gpu-1   Unhealthy  <none>  <none>    <none>\n\
             \nA new pod that needs one waits for example.com/nic: its device plugin is not registered.\n\
             \nThe checkpoint is damaged.\n"
        );
        assert_eq!(text(&DevicesView::default(), Timestamp::UNIX_EPOCH), "No devices of device plugins.\n");
    }
}

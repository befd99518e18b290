//! `hostlet plugins`: the plugins at the registration sockets of this host, as a table, JSON or YAML.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_base::human_duration;
use hostlet_plugins::{PluginState, PluginView};
use jiff::Timestamp;
use serde_json::Value;

use super::client::{DaemonArgs, plugins as list_plugins};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};

const NONE: &str = "<none>";

/// Arguments of `hostlet plugins`.
#[derive(Clone, Debug, Args)]
pub struct PluginsArgs {
    /// Print whole objects
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet plugins`.
pub async fn plugins(args: PluginsArgs) -> Result<Exit, CommandError> {
    let plugins = list_plugins(&args.daemon.socket()).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &plugins)?,
        None => write!(out, "{}", text(&plugins, Timestamp::now()))?,
    }
    Ok(Exit::Ok)
}

/// A line per plugin, for the explanation of the node.
pub(super) fn plugin_lines(plugins: &[PluginView]) -> String {
    let line = |plugin: &PluginView| {
        let name = plugin.name.as_deref().unwrap_or(&plugin.socket);
        let kind = plugin.plugin_type.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let amounts = match (&*number(plugin, "devices"), &*number(plugin, "slices")) {
            ("", _) | (_, "") => String::new(),
            (devices, slices) => format!("; devices: {devices}, published slices: {slices}"),
        };
        format!("  {name}{kind}: {}{amounts}\n", plugin.state)
    };
    plugins.iter().map(line).collect()
}

/// A line per plugin, and a paragraph per problem.
fn text(plugins: &[PluginView], now: Timestamp) -> String {
    if plugins.is_empty() {
        return "No plugins.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "NAME",
        "TYPE",
        "STATE",
        "VERSIONS",
        "SINCE",
        "LAST MESSAGE",
        "DEVICES",
        "SLICES",
        "SOCKET",
    ]);
    let ago = |at: Timestamp| human_duration(now.duration_since(at));
    for plugin in plugins {
        let last_message = time(plugin, "lastMessage").map(ago);
        table.add_row([
            plugin.name.clone().unwrap_or_else(|| NONE.to_owned()),
            plugin.plugin_type.clone().unwrap_or_else(|| NONE.to_owned()),
            plugin.state.to_string(),
            if plugin.versions.is_empty() { NONE.to_owned() } else { plugin.versions.join(",") },
            ago(plugin.since),
            last_message.unwrap_or_default(),
            number(plugin, "devices"),
            number(plugin, "slices"),
            plugin.socket.clone(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    for problem in plugins.iter().flat_map(|plugin| problems(plugin, now)) {
        text.push_str(&format!("\n{problem}\n"));
    }
    text
}

/// What is wrong with a plugin, and when hostlet tries again.
fn problems(plugin: &PluginView, now: Timestamp) -> Vec<String> {
    let next_retry = match plugin.state {
        PluginState::Serving | PluginState::Standby => time(plugin, "nextRetry"),
        PluginState::Registering | PluginState::Failing | PluginState::Unsupported => plugin.next_retry,
    };
    let next = next_retry.filter(|at| *at > now).map(|at| human_duration(at.duration_since(now)));
    let mut sentences: Vec<String> =
        plugin.problems().iter().map(|text| format!("{}.", text.trim_end_matches('.'))).collect();
    if let (Some(first), Some(next)) = (sentences.first_mut(), next) {
        first.push_str(&format!(" The next attempt is in {next}."));
    }
    sentences
}

fn detail<'p>(plugin: &'p PluginView, key: &str) -> Option<&'p Value> {
    plugin.details.as_ref()?.get(key)
}

fn number(plugin: &PluginView, key: &str) -> String {
    detail(plugin, key).and_then(Value::as_u64).map(|number| number.to_string()).unwrap_or_default()
}

fn time(plugin: &PluginView, key: &str) -> Option<Timestamp> {
    detail(plugin, key)?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plugin(value: Value) -> PluginView {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_plugin_has_a_line_and_each_problem_a_sentence() {
        let plugins = [
            plugin(json!({
                "name": "gpu.example.com", "type": "DRAPlugin", "state": "Serving", "versions": ["1.0.0"],
                "socket": "/r/gpu.sock", "endpoint": "/p/gpu.sock", "since": "1970-01-01T00:00:00Z",
                "details": {"lastMessage": "1970-01-01T00:01:30Z", "devices": 3, "slices": 1,
                    "lastError": "the API server is away", "problems": ["device a has no name."],
                    "nextRetry": "1970-01-01T00:01:45Z"},
            })),
            plugin(json!({
                "state": "Failing", "socket": "/r/a.sock", "since": "1970-01-01T00:01:00Z", "failures": 4,
                "lastError": "nothing answers", "nextRetry": "1970-01-01T00:01:44Z",
            })),
            plugin(json!({
                "name": "disk", "type": "CSIPlugin", "state": "Unsupported", "socket": "/r/disk.sock",
                "since": "1970-01-01T00:00:00Z", "failures": 1, "lastError": "no handler",
            })),
        ];
        let text = text(&plugins, Timestamp::from_second(100).unwrap());
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[1],
            ["gpu.example.com", "DRAPlugin", "Serving", "1.0.0", "100s", "10s", "3", "1", "/r/gpu.sock"]
        );
        assert_eq!(rows[2], ["<none>", "<none>", "Failing", "<none>", "40s", "/r/a.sock"]);
        for sentence in [
            "Plugin gpu.example.com: the API server is away. The next attempt is in 5s.",
            "Plugin gpu.example.com: device a has no name.",
            "The plugin at /r/a.sock cannot be registered: nothing answers. The next attempt is in 4s.",
            "The plugin disk at /r/disk.sock is a CSIPlugin, which hostlet does not support.",
        ] {
            assert!(text.contains(&format!("\n\n{sentence}\n")), "{sentence}: {text}");
        }
        assert_eq!(
            plugin_lines(&plugins),
            "  gpu.example.com (DRAPlugin): Serving; devices: 3, published slices: 1\n  /r/a.sock: Failing\n  \
             disk (CSIPlugin): Unsupported\n"
        );
        assert_eq!(super::text(&[], Timestamp::UNIX_EPOCH), "No plugins.\n");
    }
}

//! `hostlet timeline`: the steps of a pod.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_observe::status::timeline::{PodTimeline, TimelineEntry};
use hostlet_serve::server::TimelineView;
use jiff::Timestamp;

use super::client::{DaemonArgs, about_pod};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};

/// Arguments of `hostlet timeline`.
#[derive(Clone, Debug, Args)]
pub struct TimelineArgs {
    /// Name of the pod, with or without the node's name appended, with or without NAMESPACE/ before it
    pub pod: String,
    /// Print the steps as objects
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet timeline`. Fails if there was no such pod since the daemon started.
pub async fn timeline(args: TimelineArgs) -> Result<Exit, CommandError> {
    let view: TimelineView = about_pod(&args.daemon.socket(), "/v1/timeline", &args.pod).await?;
    let exit = if view.pods.is_empty() { Exit::Failed } else { Exit::Ok };
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &view)?,
        None if view.pods.is_empty() => {
            let near = if view.nearest.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", view.nearest.join(" or "))
            };
            writeln!(out, "There has been no pod {} since hostlet started{near}", args.pod)?;
        }
        None => {
            let texts: Vec<String> = view.pods.iter().map(text).collect();
            writeln!(out, "{}", texts.join("\n\n"))?;
        }
    }
    Ok(exit)
}

/// The steps as a table below a heading.
pub(super) fn text(track: &PodTimeline) -> String {
    let gone = if track.is_deleted { ", gone" } else { "" };
    let heading = format!("{}/{} (UID {}{gone})", track.namespace, track.name, track.uid);
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["TIME", "SINCE START", "TOOK", "STEP", "DETAIL"]);
    let start = track.entries.front().map(|entry| entry.at);
    for entry in &track.entries {
        table.add_row(row(entry, start.unwrap_or(entry.at)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{heading}\n{}", lines.join("\n"))
}

fn row(entry: &TimelineEntry, start: Timestamp) -> [String; 5] {
    let since = u64::try_from(entry.at.duration_since(start).as_millis()).unwrap_or(0);
    let took = entry.took_ms.map(length).unwrap_or_default();
    let mut detail = entry.detail.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if entry.times > 1 {
        detail = format!("{detail} ({} times)", entry.times).trim_start().to_owned();
    }
    let time = entry.at.strftime("%Y-%m-%d %H:%M:%S%.3fZ").to_string();
    // The machine-readable name is also the displayed one.
    let step = serde_json::to_value(entry.step).ok();
    let step = step.as_ref().and_then(|step| step.as_str()).unwrap_or_default().to_owned();
    [time, format!("+{}", length(since)), took, step, detail]
}

/// Milliseconds with about three digits.
fn length(ms: u64) -> String {
    let (seconds, rest) = (ms / 1000, ms % 1000);
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}.{}s", rest / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_shown_with_their_offset_from_the_first() {
        let track: PodTimeline = serde_json::from_value(serde_json::json!({
            "namespace": "default", "name": "web", "uid": "u", "gone": true, "entries": [
                {"at": "2026-01-01T00:00:00Z", "step": "seen", "times": 1},
                {"at": "2026-01-01T00:00:01.5Z", "step": "stop-sandbox", "tookMs": 61_000, "detail": "x", "times": 2},
            ],
        }))
        .unwrap();
        let text = text(&track);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "default/web (UID u, gone)");
        assert!(lines[2].ends_with("seen"), "{text}");
        let last: Vec<&str> = lines[3].split_whitespace().skip(2).collect();
        assert_eq!(last, ["+1.5s", "1m01s", "stop-sandbox", "x", "(2", "times)"]);
    }
}

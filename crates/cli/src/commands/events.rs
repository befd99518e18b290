//! `hostlet events`: the recent events of pods and of the node, once or as they happen.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_base::human_duration;
use hostlet_observe::status::RecentEvent;
use hostlet_serve::server::EventsQuery;
use jiff::Timestamp;

use super::client::{DaemonArgs, Lines};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_next_object};

/// Arguments of `hostlet events`.
#[derive(Clone, Debug, Args)]
pub struct EventsArgs {
    /// Show only events of this pod: its name, with or without the node's name appended, with or without NAMESPACE/ before it
    pub pod: Option<String>,
    /// Watch: go on with events as they happen
    #[arg(short, long)]
    pub watch: bool,
    /// Print objects, in JSON one per line
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon to ask
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet events`.
pub async fn events(args: EventsArgs) -> Result<Exit, CommandError> {
    let query = EventsQuery { pod: args.pod.clone(), watch: args.watch };
    let mut lines = Lines::<RecentEvent>::start(&args.daemon.socket(), "/v1/events", &query).await?;
    let mut out = io::stdout();
    match (args.output, args.watch) {
        (Some(format), _) => {
            while let Some(event) = lines.next().await? {
                write_next_object(&mut out, format, &event)?;
            }
        }
        (None, true) => {
            while let Some(event) = lines.next().await? {
                writeln!(out, "{}", line(&event))?;
                out.flush()?;
            }
        }
        (None, false) => {
            let mut all = Vec::new();
            while let Some(event) = lines.next().await? {
                all.push(event);
            }
            match all.is_empty() {
                true => writeln!(out, "No events since hostlet started.")?,
                false => writeln!(out, "{}", table(&all, Timestamp::now()))?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// The subject of an event, as `kubectl` names it.
fn subject(event: &RecentEvent) -> String {
    match (&event.namespace, &event.container) {
        (None, _) => format!("node/{}", event.name),
        (Some(namespace), None) => format!("{namespace}/{}", event.name),
        (Some(namespace), Some(container)) => format!("{namespace}/{} ({container})", event.name),
    }
}

/// One line of a watch, without columns: later events may be longer.
fn line(event: &RecentEvent) -> String {
    let time = event.last.strftime("%Y-%m-%d %H:%M:%SZ");
    let message = event.message.replace('\n', " ");
    format!("{time}  {}  {}  {}  {message}", event.kind, event.reason, subject(event))
}

/// The events as a table.
pub(super) fn table(events: &[RecentEvent], now: Timestamp) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events {
        let ago = human_duration(now.duration_since(event.last));
        let seen = match event.count {
            1 => ago,
            count => format!("{ago} (x{count} over {})", human_duration(now.duration_since(event.first))),
        };
        let message = event.message.replace('\n', " ");
        table.add_row([seen, event.kind.clone(), event.reason.clone(), subject(event), message]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(namespace: Option<&str>, container: Option<&str>, count: u64) -> RecentEvent {
        RecentEvent {
            number: 1,
            first: Timestamp::from_second(0).unwrap(),
            last: Timestamp::from_second(90).unwrap(),
            count,
            kind: "Warning".to_owned(),
            reason: "BackOff".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "a".to_owned(),
            container: container.map(str::to_owned),
            message: "two\nlines".to_owned(),
        }
    }

    #[test]
    fn an_event_is_a_line_with_its_subject_and_count() {
        let now = Timestamp::from_second(100).unwrap();
        let events = [event(None, None, 1), event(Some("default"), Some("c"), 3)];
        let table = table(&events, now);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].starts_with("10s ") && lines[1].contains("node/a"), "{table}");
        assert!(lines[2].starts_with("10s (x3 over 100s)"), "{table}");
        assert!(lines[2].ends_with("default/a (c)  two lines"), "{table}");
        assert_eq!(line(&events[1]), "1970-01-01 00:01:30Z  Warning  BackOff  default/a (c)  two lines");
    }
}

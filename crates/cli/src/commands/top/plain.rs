//! The output for everything but a terminal: all pods, once.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table};
use hostlet_serve::server::{UsageView, UsedView};
use jiff::Timestamp;
use serde::Serialize;

use super::args::TopArgs;
use super::columns::{ALL, GAP};
use super::row::{Row, rows, sort};
use crate::commands::client::{usage, view};
use crate::commands::error::CommandError;
use crate::commands::exit::Exit;
use crate::commands::objects::write_object;

/// The CPU is known from the second measurement on, which is not made earlier.
const BETWEEN_MEASUREMENTS: Duration = Duration::from_millis(1100);

/// The node and its pods as an object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    node: &'a str,
    cpus: u64,
    used: UsedView,
    pods: &'a [&'a Row],
}

/// Prints the pods.
pub(super) async fn plain(args: &TopArgs) -> Result<Exit, CommandError> {
    let socket = &args.daemon.socket();
    let mut used = usage(socket).await?;
    if used.node.cpu_nano_cores.is_none() {
        tokio::time::sleep(BETWEEN_MEASUREMENTS).await;
        used = usage(socket).await?;
    }
    let node = view(socket).await?;
    let rows = rows(&node.pods, Some(&used), Timestamp::now());
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sort(&mut sorted, args.sort_by);
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => {
            let report = Report { node: &node.node, cpus: used.cpus, used: used.node, pods: &sorted };
            write_object(&mut out, format, &report)?;
        }
        None if sorted.is_empty() => writeln!(out, "No pods.")?,
        None => writeln!(out, "{}", table(&sorted, &used))?,
    }
    Ok(Exit::Ok)
}

fn table(rows: &[&Row], used: &UsageView) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(ALL.map(|column| column.heading()));
    for row in rows {
        table.add_row(ALL.map(|column| column.cell(row, used.cpus)));
    }
    for (column, kind) in table.column_iter_mut().zip(ALL) {
        column.set_padding((0, u16::try_from(GAP).unwrap_or(1)));
        if kind.is_number() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_printed_with_all_columns() {
        let used = UsedView {
            cpu_nano_cores: Some(250_000_000),
            memory_bytes: Some(34 << 20),
            memory_limit_bytes: Some(64 << 20),
        };
        let web = Row {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            ready: "1/1".to_owned(),
            status: "Running".to_owned(),
            restarts: 12,
            age: "5m".to_owned(),
            used,
            ..Row::default()
        };
        let new = Row {
            name: "new".to_owned(),
            waits_for: "pulling".to_owned(),
            status: "Pending".to_owned(),
            ..Row::default()
        };
        let printed = table(&[&web, &new], &UsageView { cpus: 2, ..UsageView::default() });
        let expected = "\
NAMESPACE  NAME  READY  STATUS   RESTARTS   CPU   CPU%  MEMORY  LIMIT  AGE  WAITS FOR
default    web   1/1    Running        12  250m  12.5%    34Mi   64Mi   5m
           new          Pending         0     -      -       -      -       pulling";
        assert_eq!(printed, expected);
    }
}

//! Which columns fit into a terminal, and how wide they are. Pure.

use unicode_width::UnicodeWidthStr;

use super::amounts::{cores, memory, share};
use super::args::SortBy;
use super::row::Row;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Namespace,
    Name,
    Ready,
    Status,
    Restarts,
    Cpu,
    CpuShare,
    Memory,
    Limit,
    Age,
    WaitsFor,
}

/// From left to right.
pub(super) const ALL: [Column; 11] = [
    Column::Namespace,
    Column::Name,
    Column::Ready,
    Column::Status,
    Column::Restarts,
    Column::Cpu,
    Column::CpuShare,
    Column::Memory,
    Column::Limit,
    Column::Age,
    Column::WaitsFor,
];

/// What a narrow terminal goes without, the first one first.
const DISPENSABLE: [Column; 9] = [
    Column::Age,
    Column::Ready,
    Column::Limit,
    Column::WaitsFor,
    Column::Namespace,
    Column::CpuShare,
    Column::Restarts,
    Column::Memory,
    Column::Cpu,
];

/// Spaces between two columns.
pub(super) const GAP: usize = 2;

impl Column {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Namespace => "NAMESPACE",
            Self::Name => "NAME",
            Self::Ready => "READY",
            Self::Status => "STATUS",
            Self::Restarts => "RESTARTS",
            Self::Cpu => "CPU",
            Self::CpuShare => "CPU%",
            Self::Memory => "MEMORY",
            Self::Limit => "LIMIT",
            Self::Age => "AGE",
            Self::WaitsFor => "WAITS FOR",
        }
    }

    /// The text of a pod. What is unknown is `-`.
    pub(super) fn cell(self, row: &Row, cpus: u64) -> String {
        let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let cpu = row.used.cpu_nano_cores;
        match self {
            Self::Namespace => row.namespace.clone(),
            Self::Name => row.name.clone(),
            Self::Ready => row.ready.clone(),
            Self::Status => row.status.clone(),
            Self::Restarts => row.restarts.to_string(),
            Self::Cpu => known(cpu.map(cores)),
            Self::CpuShare => known(cpu.and_then(|cpu| share(cpu, cpus.saturating_mul(1_000_000_000)))),
            Self::Memory => known(row.used.memory_bytes.map(memory)),
            Self::Limit => known(row.used.memory_limit_bytes.map(memory)),
            Self::Age => row.age.clone(),
            Self::WaitsFor => row.waits_for.clone(),
        }
    }

    /// Whether the pods are sorted by it.
    pub(super) fn is_sorted(self, by: SortBy) -> bool {
        match by {
            SortBy::Cpu => self == Self::Cpu,
            SortBy::Memory => self == Self::Memory,
            SortBy::Restarts => self == Self::Restarts,
            SortBy::Name => self == Self::Name,
        }
    }

    /// Numbers are aligned to the right.
    pub(super) fn is_number(self) -> bool {
        match self {
            Self::Restarts | Self::Cpu | Self::CpuShare | Self::Memory | Self::Limit | Self::Age => true,
            Self::Namespace | Self::Name | Self::Ready | Self::Status | Self::WaitsFor => false,
        }
    }

    /// The width to which it may be cut: the beginning of some texts is enough.
    fn least(self, natural: usize) -> usize {
        match self {
            Self::Name => natural.min(24),
            Self::WaitsFor => natural.min(20),
            Self::Namespace
            | Self::Ready
            | Self::Status
            | Self::Restarts
            | Self::Cpu
            | Self::CpuShare
            | Self::Memory
            | Self::Limit
            | Self::Age => natural,
        }
    }
}

/// The columns for these pods with their widths, which together fit `width`.
pub(super) fn fitting(rows: &[&Row], cpus: u64, width: usize) -> Vec<(Column, usize)> {
    let natural = |column: Column| {
        let cells = rows.iter().map(|row| column.cell(row, cpus).width()).max().unwrap_or(0);
        // Without a pod that waits there is nothing to show.
        if column == Column::WaitsFor && cells == 0 { 0 } else { cells.max(column.heading().width()) }
    };
    let mut shown: Vec<(Column, usize)> =
        ALL.into_iter().map(|column| (column, natural(column))).filter(|(_, natural)| *natural > 0).collect();
    let needed = |shown: &[(Column, usize)]| -> usize {
        let gaps = GAP * shown.len().saturating_sub(1);
        shown.iter().map(|(column, natural)| column.least(*natural)).sum::<usize>() + gaps
    };
    for column in DISPENSABLE {
        if needed(&shown) <= width {
            break;
        }
        shown.retain(|(other, _)| *other != column);
    }
    let mut rest = width.saturating_sub(needed(&shown));
    for (column, natural) in &mut shown {
        let least = column.least(*natural);
        let more = (*natural - least).min(rest);
        rest -= more;
        *natural = least + more;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[&Row], width: usize) -> String {
        let columns = fitting(rows, 4, width);
        let total: usize = columns.iter().map(|(_, width)| width + GAP).sum();
        assert!(total - GAP <= width || columns.len() == 2, "{columns:?}");
        columns
            .iter()
            .map(|(column, width)| format!("{}:{width}", column.heading()))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn narrow_terminals_drop_columns_and_cut_names() {
        let row = Row {
            namespace: "kube-system".to_owned(),
            name: "a-name-that-has-thirty-letters".to_owned(),
            ready: "1/1".to_owned(),
            status: "CrashLoopBackOff".to_owned(),
            age: "5m".to_owned(),
            waits_for: "w".repeat(100),
            ..Row::default()
        };
        let of = |width| shown(&[&row], width);
        assert!(
            of(300).starts_with("NAMESPACE:11 NAME:30 READY:5 STATUS:16 RESTARTS:8 CPU:3"),
            "{}",
            of(300)
        );
        assert!(of(300).ends_with("LIMIT:5 AGE:3 WAITS FOR:100"), "{}", of(300));
        assert!(of(140).ends_with("AGE:3 WAITS FOR:29"), "{}", of(140));
        assert_eq!(of(80), "NAME:30 STATUS:16 RESTARTS:8 CPU:3 CPU%:4 MEMORY:6");
        assert_eq!(of(60), "NAME:29 STATUS:16 CPU:3 MEMORY:6");
        assert_eq!(of(45), "NAME:27 STATUS:16");
        assert_eq!(of(10), "NAME:24 STATUS:16");
        let fine = Row { waits_for: String::new(), ..row.clone() };
        assert!(shown(&[&fine], 300).ends_with("AGE:3"));
        assert!(shown(&[], 300).starts_with("NAMESPACE:9 NAME:4"));
    }
}

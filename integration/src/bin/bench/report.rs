//! Figures as rows, rows as a table and as JSON. Judges a figure against its target; measures nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    Megabytes,
    /// Thousandths of a core.
    Millicores,
    PerSecond,
    Bytes,
    /// How many, on average.
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
            Self::Millicores => "mcore",
            Self::PerSecond => "/s",
            Self::Bytes => "B",
            Self::Count => "",
        }
    }
}

/// What hostlet's figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// At most this, whatever the bare runtime does.
    AtMost(f64),
    /// At most so many times the bare figure.
    Ratio(f64),
    /// At most so much more than the bare figure.
    Added(f64),
    /// At most so many times the stock kubelet's figure.
    OfStock(f64),
}

/// One line of the report.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    metric: String,
    unit: Unit,
    bare: Option<f64>,
    hostlet: Option<f64>,
    stock: Option<f64>,
    target: Option<Target>,
}

impl Row {
    pub(crate) fn new(metric: impl Into<String>, unit: Unit) -> Self {
        Self { metric: metric.into(), unit, bare: None, hostlet: None, stock: None, target: None }
    }

    /// The figure of bare CRI calls.
    #[must_use]
    pub(crate) fn bare(self, figure: f64) -> Self {
        Self { bare: Some(figure), ..self }
    }

    #[must_use]
    pub(crate) fn hostlet(self, figure: f64) -> Self {
        Self { hostlet: Some(figure), ..self }
    }

    /// The figure of the stock kubelet.
    #[must_use]
    pub(crate) fn stock(self, figure: f64) -> Self {
        Self { stock: Some(figure), ..self }
    }

    #[must_use]
    pub(crate) fn target(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    fn both(&self) -> Option<(f64, f64)> {
        Some((self.bare?, self.hostlet?))
    }

    fn ratio(&self) -> Option<f64> {
        self.both().map(|(bare, hostlet)| hostlet / bare)
    }

    fn difference(&self) -> Option<f64> {
        self.both().map(|(bare, hostlet)| hostlet - bare)
    }

    fn stock_difference(&self) -> Option<f64> {
        Some(self.stock? - self.bare?)
    }

    fn of_stock(&self) -> Option<f64> {
        Some(self.hostlet? / self.stock?)
    }

    /// Whether the target is met; none without one, or without the figures it speaks of. A figure that is no number
    /// meets nothing.
    fn verdict(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtMost(limit) => self.hostlet? <= limit,
            Target::Ratio(limit) => self.ratio()? <= limit,
            Target::Added(limit) => self.difference()? <= limit,
            Target::OfStock(limit) => self.of_stock()? <= limit,
        })
    }

    fn cells(&self) -> [String; COLUMNS.len()] {
        let unit = self.unit;
        let figure = |figure: Option<f64>| figure.map_or_else(String::new, |figure| number(unit, figure));
        let times = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x"));
        let target = self.target.map_or_else(String::new, |target| match target {
            Target::AtMost(limit) => format!("<= {}", number(unit, limit)),
            Target::Ratio(limit) => format!("<= {limit:.2}x"),
            Target::Added(limit) => format!("<= +{}", number(unit, limit)),
            Target::OfStock(limit) => format!("<= {limit:.2} of stock"),
        });
        [
            self.metric.clone(),
            unit.name().to_owned(),
            figure(self.bare),
            figure(self.hostlet),
            times(self.ratio()),
            figure(self.difference()),
            figure(self.stock),
            figure(self.stock_difference()),
            times(self.of_stock()),
            target,
            self.verdict().map_or("", |met| if met { "ok" } else { "MISS" }).to_owned(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "metric": self.metric,
            "unit": self.unit.name(),
            "bare": self.bare,
            "hostlet": self.hostlet,
            "ratio": self.ratio(),
            "difference": self.difference(),
            "stock": self.stock,
            "stock_difference": self.stock_difference(),
            "of_stock": self.of_stock(),
            "target": self.cells()[TARGET],
            "ok": self.verdict(),
        })
    }
}

/// A figure with as many digits as it deserves.
fn number(unit: Unit, figure: f64) -> String {
    match unit {
        Unit::Bytes => format!("{figure:.0}"),
        Unit::Milliseconds if figure.abs() >= 1000.0 => format!("{figure:.0}"),
        Unit::Milliseconds | Unit::Megabytes | Unit::Millicores | Unit::PerSecond | Unit::Count => {
            format!("{figure:.1}")
        }
    }
}

/// The columns of the table, each with what a row has in it. A column that no row needs is left out.
const COLUMNS: [&str; 11] =
    ["metric", "unit", "bare", "hostlet", "ratio", "diff", "stock", "diff", "hostlet/stock", "target", ""];
/// Which of them is the target.
const TARGET: usize = 9;

/// The rows as text in columns.
pub(crate) fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; COLUMNS.len()]> = rows.iter().map(Row::cells).collect();
    let needed: Vec<usize> =
        (0..COLUMNS.len()).filter(|column| cells.iter().any(|line| !line[*column].is_empty())).collect();
    let head = COLUMNS.map(str::to_owned);
    let lines: Vec<[String; COLUMNS.len()]> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        let mut out = String::new();
        for &column in &needed {
            let (cell, width) = (&line[column], width(column));
            // Words to the left, numbers to the right.
            let _ = match column {
                0 | 1 => write!(out, "{cell:<width$}  "),
                _ => write!(out, "{cell:>width$}  "),
            };
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

/// The rows as a JSON document.
pub(crate) fn json(rows: &[Row]) -> Value {
    json!({"rows": rows.iter().map(Row::json).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: Target) -> Row {
        Row::new("one pod", Unit::Milliseconds).bare(100.0).hostlet(110.0).target(target)
    }

    #[test]
    fn a_target_matches_its_own_rows() {
        assert_eq!(row(Target::AtMost(110.0)).verdict(), Some(true));
        assert_eq!(row(Target::AtMost(109.0)).verdict(), Some(false));
        assert_eq!(row(Target::Ratio(1.05)).verdict(), Some(false));
        assert_eq!(row(Target::Ratio(1.15)).verdict(), Some(true));
        assert_eq!(row(Target::Added(9.0)).verdict(), Some(false));
        assert_eq!(row(Target::Added(11.0)).verdict(), Some(true));
        assert_eq!(row(Target::Added(11.0)).hostlet(f64::NAN).verdict(), Some(false));
        assert_eq!(row(Target::OfStock(0.5)).stock(220.0).verdict(), Some(true));
        assert_eq!(row(Target::OfStock(0.5)).stock(219.0).verdict(), Some(false));
        assert_eq!(row(Target::OfStock(0.5)).verdict(), None);
        let no_bare = Row::new("memory", Unit::Megabytes).hostlet(1.0).target(Target::Ratio(1.0));
        assert_eq!(no_bare.verdict(), None);
    }

    #[test]
    fn the_table_has_a_line_per_row() {
        let text = table(&[row(Target::Added(8.0))]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for part in ["one pod", "100.0", "110.0", "1.10x", "10.0", "<= +8.0", "MISS"] {
            assert!(lines[1].contains(part), "{part} in {text}");
        }
        assert!(!lines[0].contains("stock"), "a column that no row needs: {text}");
    }

    #[test]
    fn the_stock_kubelet_stands_beside_both() {
        let text = table(&[row(Target::OfStock(0.5)).stock(440.0)]);
        for part in ["440.0", "340.0", "0.25x", "<= 0.50 of stock", "ok"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

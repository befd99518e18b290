//! Writes samples in Prometheus' text format, with timestamps, which the registry's encoder does not have.

use std::fmt::Write;

use jiff::Timestamp;

/// The media type of the format.
pub(super) const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// A row of a table of families: what is said of one, and where its values are.
#[derive(Clone, Copy)]
pub(super) struct FamilyOf<S> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    pub(super) source: S,
}

/// The row of a family.
pub(super) const fn of<S: Copy>(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    source: S,
) -> FamilyOf<S> {
    FamilyOf { name, kind, help, source }
}

/// Samples of one name. Nothing is written of a family without samples.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    help: &'static str,
    kind: Kind,
    is_begun: bool,
}

impl<'a> Family<'a> {
    /// A family whose samples are appended to `text`.
    pub(super) fn new(text: &'a mut String, name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self { text, name, help, kind, is_begun: false }
    }

    /// Adds a sample with these [`labels`], joined by commas.
    pub(super) fn sample(&mut self, labels: &[&str], value: f64, at: Option<Timestamp>) {
        let Self { text, name, help, kind, is_begun } = self;
        if !std::mem::replace(is_begun, true) {
            // Writing to a string cannot fail, here and below.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str());
        }
        text.push_str(name);
        let mut separator = '{';
        for labels in labels.iter().filter(|labels| !labels.is_empty()) {
            text.push(separator);
            text.push_str(labels);
            separator = ',';
        }
        if separator == ',' {
            text.push('}');
        }
        let _ = write!(text, " {value}");
        if let Some(at) = at {
            let _ = write!(text, " {}", at.as_millisecond());
        }
        text.push('\n');
    }
}

/// Labels, with their values escaped.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

/// A number of anything.
#[allow(clippy::cast_precision_loss, reason = "the format has no other numbers")]
pub(super) fn number(value: u64) -> f64 {
    value as f64
}

/// Nanoseconds as seconds.
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    number(nanoseconds) / 1e9
}

/// A time as seconds since the epoch.
pub(super) fn epoch(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_written_as_prometheus_reads_it() {
        let mut text = String::new();
        Family::new(&mut text, "none", "Nothing.", Kind::Gauge);
        let mut family = Family::new(&mut text, "things_total", "All things.", Kind::Counter);
        family.sample(&[], 1.5, None);
        let base = labels(&[("id", "/a \"b\" \\ \n"), ("pod", "")]);
        family.sample(
            &[&base, &labels(&[("cpu", "total")])],
            number(12),
            Some(Timestamp::from_millisecond(7).unwrap()),
        );
        let expected = "# HELP things_total All things.\n# TYPE things_total counter\nthings_total 1.5\n\
            things_total{id=\"/a \\\"b\\\" \\\\ \\n\",pod=\"\",cpu=\"total\"} 12 7\n";
        assert_eq!(text, expected);
    }
}

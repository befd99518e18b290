//! Prometheus' text format, in which the stock kubelet answers: made of OpenMetrics' as it is written, line by line. There, the family
//! of a counter has the suffix of its samples, a counter may have no suffix, and bounds of buckets are Go's numbers.

use std::fmt;

use hostlet_base::go_float;

/// The media type.
pub const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Takes OpenMetrics text, and becomes Prometheus'.
#[derive(Debug, Default)]
pub(super) struct PrometheusText {
    done: String,
    /// The line that is being written.
    line: String,
    /// The name and help of the present family, until its type is known.
    help: Option<(String, String)>,
}

impl PrometheusText {
    pub(super) fn finish(self) -> String {
        self.done
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some(described) = line.strip_prefix("# HELP ") {
            self.help = described.split_once(' ').map(|(name, help)| (name.to_owned(), help.to_owned()));
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            self.family(typed);
        } else if !line.starts_with('#') {
            self.sample(&line);
        }
        // Its memory is reused.
        self.line = line;
        self.line.clear();
    }

    fn family(&mut self, typed: &str) {
        let Some((name, kind)) = typed.rsplit_once(' ') else { return };
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            // Only plain counters are of this type.
            "unknown" => ("", "counter"),
            other => ("", other),
        };
        let mut put = |parts: &[&str]| parts.iter().for_each(|part| self.done.push_str(part));
        if let Some((_, help)) = self.help.take().filter(|(of, _)| of == name) {
            put(&["# HELP ", name, suffix, " ", &help, "\n"]);
        }
        put(&["# TYPE ", name, suffix, " ", kind, "\n"]);
    }

    fn sample(&mut self, line: &str) {
        match bound(line) {
            Some((before, bound, after)) => {
                self.done.push_str(before);
                self.done.push_str(&bound);
                self.done.push_str(after);
            }
            None => self.done.push_str(line),
        }
        self.done.push('\n');
    }
}

/// The upper bound of a bucket in Go's form, with what is before and after it; `None` if the line is no bucket with a number.
fn bound(line: &str) -> Option<(&str, String, &str)> {
    // The encoder writes this label first.
    let start = line.find("_bucket{le=\"")? + "_bucket{le=\"".len();
    let (before, rest) = line.split_at(start);
    let (bound, after) = rest.split_at(rest.find('"')?);
    let number = bound.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((before, go_float(number), after))
}

impl fmt::Write for PrometheusText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(end) => {
                    self.line.push_str(end);
                    self.end_line();
                }
                None => self.line.push_str(part),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn families_samples_and_bounds_are_upstreams() {
        let mut text = PrometheusText::default();
        let open = "# HELP a_calls Calls.\n# TYPE a_calls counter\na_calls_total{x=\"# \\n\"} 1\n\
                    # HELP a_plain Plain.\n# TYPE a_plain unknown\na_plain 2\n\
                    # HELP a_time Time.\n# TYPE a_time histogram\na_time_sum 3.0\na_time_count 1\n\
                    a_time_bucket{le=\"0.005\",x=\"y\"} 0\na_time_bucket{le=\"10.0\"} 1\n\
                    a_time_bucket{le=\"4194304.0\"} 1\na_time_bucket{le=\"+Inf\"} 1\n# EOF\n";
        // In pieces, as the encoder writes.
        for piece in open.split_inclusive(' ') {
            text.write_str(piece).unwrap();
        }
        let expected = "# HELP a_calls_total Calls.\n# TYPE a_calls_total counter\na_calls_total{x=\"# \\n\"} 1\n\
                        # HELP a_plain Plain.\n# TYPE a_plain counter\na_plain 2\n\
                        # HELP a_time Time.\n# TYPE a_time histogram\na_time_sum 3.0\na_time_count 1\n\
                        a_time_bucket{le=\"0.005\",x=\"y\"} 0\na_time_bucket{le=\"10\"} 1\n\
                        a_time_bucket{le=\"4.194304e+06\"} 1\na_time_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(text.finish(), expected);
    }
}

//! What a query for logs asks for, and whether it may. Pure. The rules, limits and texts are upstream's (`kubelet_server_journal.go`), but
//! a pattern is checked by journalctl alone, whose syntax it has.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::json;

use hostlet_base::go_quoted;

/// Maximum number of lines.
const MAX_LINES: i64 = 100_000;
/// Maximum length of the name of a service, bytes.
const MAX_NAME: usize = 256;
/// Maximum number of services.
const MAX_SERVICES: usize = 4;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    services: Vec<String>,
    files: Vec<String>,
    pub(super) options: Options,
}

/// The options for the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    since: Option<(String, Timestamp)>,
    until: Option<(String, Timestamp)>,
    lines: Option<i64>,
    boot: Option<i64>,
    pattern: String,
}

/// What a valid query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A file below `/var/log`, or a directory.
    File(String),
    /// The logs of these services.
    Services(Vec<String>),
}

/// Everything that is wrong with a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QueryErrors(Vec<String>);

impl fmt::Display for QueryErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            all => write!(f, "[{}]", all.join(", ")),
        }
    }
}

impl QueryErrors {
    /// `value` as Go prints it.
    fn invalid(&mut self, field: &str, value: impl fmt::Display, why: impl fmt::Display) {
        self.0.push(format!("{field}: Invalid value: {value}: {why}"));
    }

    fn result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl Query {
    /// Parses the query of a URL. `None` if it has none of the known parameters.
    pub fn parse(query: &str) -> Result<Option<Self>, QueryErrors> {
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
        let first = |name: &str| pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
        let (mut errors, mut parsed) = (QueryErrors::default(), Self::default());
        let queries: Vec<&String> =
            pairs.iter().filter(|(key, _)| key == "query").map(|(_, value)| value).collect();
        for &query in &queries {
            // A slash is what tells a file from a service.
            if query.contains(['/', '\\']) {
                parsed.files.push(query.clone());
            } else if !query.trim().is_empty() {
                parsed.services.push(query.clone());
            }
        }
        if !queries.is_empty() && parsed.files.is_empty() && parsed.services.is_empty() {
            errors.invalid("query", json!(queries), "may not be empty");
        }
        let mut time = |name: &str| match first(name) {
            "" => None,
            text => match text.parse::<Timestamp>() {
                Ok(time) => Some((text.to_owned(), time)),
                Err(_) => {
                    errors.invalid(name, go_quoted(text), "invalid time format");
                    None
                }
            },
        };
        (parsed.options.since, parsed.options.until) = (time("sinceTime"), time("untilTime"));
        let mut number = |name: &str| match first(name) {
            "" => None,
            text => match text.parse::<i64>() {
                Ok(number) => Some(number),
                Err(_) => {
                    let text = go_quoted(text);
                    errors.invalid(name, &text, format!("strconv.Atoi: parsing {text}: invalid syntax"));
                    None
                }
            },
        };
        (parsed.options.boot, parsed.options.lines) = (number("boot"), number("tailLines"));
        parsed.options.pattern = first("pattern").to_owned();
        errors.result((parsed != Self::default()).then_some(parsed))
    }

    /// What it asks for, if it may.
    pub fn wanted(&self) -> Result<Wanted, QueryErrors> {
        let mut errors = QueryErrors::default();
        for service in &self.services {
            if service.len() > MAX_NAME {
                errors.invalid("query", go_quoted(service), format!("length must be less than {MAX_NAME}"));
            } else if !service.chars().all(is_safe) {
                errors.invalid("query", go_quoted(service), "input contains unsupported characters");
            }
        }
        if self.services.len() > MAX_SERVICES {
            let count = self.services.len();
            errors.0.push(format!("query: Too many: {count}: must have at most {MAX_SERVICES} items"));
        }
        match (self.files.as_slice(), self.services.as_slice()) {
            ([], []) => errors.0.push("query: Required value: cannot be empty with options".to_owned()),
            ([_, ..], [_, ..]) => {
                let both = format!("[{}], [{}]", self.files.join(" "), self.services.join(" "));
                errors.invalid("query", go_quoted(&both), "cannot specify a file and service");
            }
            ([_, _, ..], []) => {
                errors.invalid("query", json!(self.files), "cannot specify more than one file");
            }
            ([_], []) if self.options != Options::default() => {
                errors.invalid("query", json!(self.files), "cannot specify file with options");
            }
            ([_], []) | ([], [_, ..]) => {}
        }
        self.options.check(&mut errors);
        let wanted = match self.files.first() {
            Some(file) => Wanted::File(file.replace('\\', "/")),
            None => Wanted::Services(self.services.clone()),
        };
        errors.result(wanted)
    }

    /// The error of a file that cannot be opened.
    pub(super) fn no_such_file(&self, why: &str) -> String {
        let mut errors = QueryErrors::default();
        errors.invalid("query", json!(self.files), why);
        errors.to_string()
    }
}

impl Options {
    fn check(&self, errors: &mut QueryErrors) {
        if let (Some((_, since)), Some((text, until))) = (&self.since, &self.until)
            && since > until
        {
            errors.invalid("untilTime", go_quoted(text), "must be after `sinceTime`");
        }
        if let Some(boot) = self.boot.filter(|boot| *boot > 0) {
            errors.invalid("boot", boot, "must be less than 1");
        }
        if let Some(lines) = self.lines.filter(|lines| !(0..=MAX_LINES).contains(lines)) {
            errors.invalid("tailLines", lines, format!("must be between 0 and {MAX_LINES}, inclusive"));
        }
    }

    /// The arguments with which journalctl prints the logs of these services. Each is a single argument, so that none is read as another
    /// option.
    pub(super) fn arguments(&self, services: &[String]) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["--utc", "--no-pager", "--output=short-precise"].map(str::to_owned).into();
        // In UTC whatever the zone of the query. Upstream drops the zone, and journalctl takes it for the host's.
        let time =
            |time: &Timestamp| Offset::UTC.to_datetime(*time).strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        arguments.extend(self.since.iter().map(|(_, since)| format!("--since={}", time(since))));
        arguments.extend(self.until.iter().map(|(_, until)| format!("--until={}", time(until))));
        if let Some(lines) = self.lines {
            arguments.extend(["--pager-end".to_owned(), format!("--lines={lines}")]);
        }
        arguments.extend(services.iter().map(|service| format!("--unit={service}")));
        if !self.pattern.is_empty() {
            arguments.push(format!("--grep={}", self.pattern));
        }
        arguments.extend(self.boot.map(|boot| format!("--boot={boot}")));
        arguments
    }
}

/// Whether a character is safe in the name of a service.
fn is_safe(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.:@".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(query: &str) -> String {
        match Query::parse(query) {
            Err(errors) => format!("400 {errors}"),
            Ok(None) => "none".to_owned(),
            Ok(Some(query)) => match query.wanted() {
                Err(errors) => format!("406 {errors}"),
                Ok(Wanted::File(file)) => format!("file {file}"),
                Ok(Wanted::Services(services)) => query.options.arguments(&services)[3..].join("|"),
            },
        }
    }

    #[test]
    fn queries_are_validated_with_upstreams_texts() {
        let long = "a".repeat(257);
        for (query, expected) in [
            ("", "none"),
            ("other=1", "none"),
            ("query=kubelet", "--unit=kubelet"),
            (
                "query=a&query=b%40c.service&tailLines=5&boot=-1&pattern=x%20-y",
                "--pager-end|--lines=5|--unit=a|--unit=b@c.service|--grep=x -y|--boot=-1",
            ),
            (
                "query=a&sinceTime=2026-11-25T10:00:00%2B02:00&untilTime=2026-11-25T10:00:00Z",
                "--since=2026-11-25 08:00:00 UTC|--until=2026-11-25 10:00:00 UTC|--unit=a",
            ),
            ("query=/syslog", "file /syslog"),
            ("query=a%5Cb.log", "file a/b.log"),
            ("query=%20%20", "400 query: Invalid value: [\"  \"]: may not be empty"),
            ("query=a&sinceTime=now", "400 sinceTime: Invalid value: \"now\": invalid time format"),
            (
                "query=a&boot=x&tailLines=y",
                "400 [boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax, \
                 tailLines: Invalid value: \"y\": strconv.Atoi: parsing \"y\": invalid syntax]",
            ),
            ("tailLines=3", "406 query: Required value: cannot be empty with options"),
            (
                "query=a&query=/b",
                "406 query: Invalid value: \"[/b], [a]\": cannot specify a file and service",
            ),
            (
                "query=/a&query=/b",
                "406 query: Invalid value: [\"/a\",\"/b\"]: cannot specify more than one file",
            ),
            ("query=/a&boot=0", "406 query: Invalid value: [\"/a\"]: cannot specify file with options"),
            ("query=a%20b", "406 query: Invalid value: \"a b\": input contains unsupported characters"),
            ("query=a;id", "406 query: Invalid value: \"a;id\": input contains unsupported characters"),
            (
                &format!("query={long}"),
                &format!("406 query: Invalid value: \"{long}\": length must be less than 256"),
            ),
            ("query=a&query=b&query=c&query=d&query=e", "406 query: Too many: 5: must have at most 4 items"),
            ("query=a&boot=1", "406 boot: Invalid value: 1: must be less than 1"),
            (
                "query=a&tailLines=100001",
                "406 tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive",
            ),
            (
                "query=a&sinceTime=2026-11-25T10:00:00Z&untilTime=2026-11-25T09:00:00Z",
                "406 untilTime: Invalid value: \"2026-11-25T09:00:00Z\": must be after `sinceTime`",
            ),
        ] {
            assert_eq!(outcome(query), expected, "{query}");
        }
    }
}

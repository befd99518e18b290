//! Small texts: a value that is read, written and read again is the same.

use std::str::from_utf8;

use hostlet_base::Quantity;
use hostlet_base::{ImageReference, with_default_tag};
use hostlet_cluster::node::{KernelProblems, OomReports};
use hostlet_engine::cri_config::{env_file_value, parse_resolv_conf};
use hostlet_host::KernelRecord;
use hostlet_observe::log::{LogLine, LogStream, RotatedLog};

/// A line of a container's log: its content is the end of the line, and its parts make the same line. The same bytes as the name of a
/// rotated log: its parts make the same name.
pub fn log_line(data: &[u8]) {
    if let Some((name, file)) =
        from_utf8(data).ok().and_then(|name| Some((name, RotatedLog::parse(name, "0.log")?)))
    {
        assert_eq!(file.name("0.log"), name, "another name");
    }
    let Ok(line) = LogLine::parse(data) else { return };
    let ends = |text: &[u8]| text.ends_with(line.content);
    assert!(ends(data) || ends(data.strip_suffix(b"\n").unwrap_or(data)), "content from elsewhere");
    let stream = match line.stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    };
    let mut again = format!("{} {stream} F ", line.timestamp).into_bytes();
    again.extend(line.content);
    assert_eq!(LogLine::parse(&again), Ok(line), "another line");
}

/// A reference to an image: its parts make a reference with the same parts.
pub fn image_reference(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let reference = match ImageReference::parse(text) {
        Ok(reference) => reference,
        Err(error) => {
            super::check_message(&error.to_string());
            assert!(with_default_tag(text).is_err(), "a tag for what is no reference");
            return;
        }
    };
    let mut again = reference.name.clone();
    if let Some(tag) = reference.tag {
        again = format!("{again}:{tag}");
    }
    if let Some(digest) = reference.digest {
        again = format!("{again}@{digest}");
    }
    assert_eq!(ImageReference::parse(&again), Ok(reference), "{again:?}");
    let Ok(tagged) = with_default_tag(text) else { panic!("no tag for {text:?}") };
    assert_eq!(with_default_tag(&tagged), Ok(tagged.clone()), "a second tag");
    assert!(tagged.is_ascii() && !tagged.contains(char::is_whitespace), "{tagged:?}");
}

/// A `resolv.conf`: its parsed values make a file with the same values.
pub fn resolv_conf(data: &[u8]) {
    let Ok(first) = parse_resolv_conf(&String::from_utf8_lossy(data)) else { return };
    // A domain may end with any number of dots; each parse removes one.
    if first.searches.iter().any(|domain| domain.ends_with('.')) {
        return;
    }
    let mut text: String = first.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    if !first.searches.is_empty() {
        text += &format!("search {}\n", first.searches.join(" "));
    }
    text += &format!("options {}\n", first.options.join(" "));
    assert_eq!(parse_resolv_conf(&text), Ok(first), "{text:?}");
}

/// A quantity: its canonical form has the same amount, and is its own canonical form.
pub fn quantity(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let Ok(first) = Quantity::parse(text) else { return };
    let canonical = first.to_string();
    assert_eq!(Quantity::parse(&canonical), Ok(first), "{text:?} as {canonical:?}");
    let Ok(second) = Quantity::parse(&canonical) else { return };
    assert_eq!(second.to_string(), canonical, "{text:?}");
    assert_eq!((second.value(), second.milli_value()), (first.value(), first.milli_value()), "{text:?}");
    assert!(first.is_negative() || first.value() >= 0, "{text:?}");
}

/// An environment file: a value that is written again is read again.
pub fn env_file(data: &[u8]) {
    let Ok(Some(value)) = env_file_value(data, "KEY") else { return };
    assert!(!value.is_empty() && !value.contains('\''), "{value:?}");
    let again = format!("A='x'\nKEY='{value}'");
    assert_eq!(env_file_value(again.as_bytes(), "KEY"), Ok(Some(value)), "{again:?}");
}

/// Records of the kernel's log, or only their messages: what was killed is named in one of them, one report is one kill, and a problem is
/// a short line.
pub fn kernel_log(data: &[u8]) {
    let (mut reports, mut problems) = (OomReports::default(), KernelProblems::default());
    let mut begun = 0;
    for line in data.split(|byte| *byte == b'\n') {
        let message = match KernelRecord::parse(line) {
            Some(record) => record.message,
            None => String::from_utf8_lossy(line).into_owned(),
        };
        begun += usize::from(message.contains("invoked oom-killer:"));
        if let Some(kill) = reports.read(&message) {
            assert!(begun > 0, "a kill without a report");
            begun = 0;
            let has_pid = message.split(|c: char| !c.is_ascii_digit()).any(|n| n.parse() == Ok(kill.pid));
            assert!(message.contains(&kill.process) && has_pid, "{kill:?} from {message:?}");
        }
        if let Some(problem) = problems.read(&message) {
            super::check_message(&problem.message);
            assert!(!problem.reason.is_empty(), "no reason for {message:?}");
        }
    }
}

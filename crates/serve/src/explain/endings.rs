//! How a container terminated, in words, and what to do about it.

use std::time::Duration;

use hostlet_base::causes::{Rule, find};
use hostlet_base::reasons;
use hostlet_observe::status::ContainerKill;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStateTerminated;
use nix::sys::signal::Signal;

use super::case::ExplainInput;
use super::causes::{OF_CONTAINER, innermost_message, of_log_end};
use super::explanation::one_line;

/// Maximum length of a quoted message in characters; the log has the rest.
const MAX_QUOTED: usize = 300;
/// Exit code of a program terminated by a signal, minus the signal's number.
const SIGNALED: i32 = 128;

/// `ended with exit code 1, and said last: "no such table"`.
pub(super) fn how_it_ended(case: &ExplainInput<'_>, name: &str, ended: &ContainerStateTerminated) -> String {
    let message = ended.message.as_deref().map(one_line).filter(|message| !message.is_empty());
    if could_not_start(ended) {
        return match message {
            Some(message) => format!("cannot be started{}", because(find(OF_CONTAINER, &message), &message)),
            None => "cannot be started".to_owned(),
        };
    }
    let how = match (ended.reason.as_deref(), kill_of(case, ended), ended.exit_code) {
        (Some(reasons::OOM_KILLED), _, 0 | 137) => {
            "was killed because it used more memory than its limit".to_owned()
        }
        (Some(reasons::OOM_KILLED), _, code) => {
            format!(
                "ended with exit code {code} after the kernel killed one of its processes, because it used more \
                 memory than its limit"
            )
        }
        (Some(reasons::CONTAINER_STATUS_UNKNOWN), _, _) => {
            "has terminated while hostlet could not observe it, so its exit code is unknown".to_owned()
        }
        (_, Some(kill), code) => {
            format!("was stopped by hostlet (exit code {code}): {}", kill.why.trim_end_matches('.'))
        }
        (_, None, 0) => "ended with exit code 0, which is success".to_owned(),
        (_, None, 126) => "ended with exit code 126: its command cannot be executed".to_owned(),
        (_, None, 127) => "ended with exit code 127: its command was not found".to_owned(),
        (_, None, 137) => "was killed (exit code 137, SIGKILL), and not for its memory limit".to_owned(),
        (_, None, 139) => "crashed (exit code 139, segmentation fault)".to_owned(),
        (_, None, 143) => "was terminated (exit code 143, SIGTERM)".to_owned(),
        (_, None, code) => match Signal::try_from(code - SIGNALED) {
            Ok(signal) => format!("was terminated by a signal (exit code {code}, {signal})"),
            Err(_) => format!("ended with exit code {code}"),
        },
    };
    match (message, case.log_ends.get(name)) {
        (Some(message), _) => format!("{how}, and said last: {:?}", cut(&message)),
        (None, Some(line)) => format!("{how}; its log ends with {:?}", cut(line)),
        (None, None) => how,
    }
}

/// The remedy for a container that terminated this way.
pub(super) fn remedy_of_end(
    case: &ExplainInput<'_>,
    name: &str,
    ended: Option<&ContainerStateTerminated>,
    logs: &str,
) -> String {
    let logs = format!("read its log: {logs}");
    let Some(ended) = ended else { return logs };
    let message = ended.message.as_deref().unwrap_or_default();
    if could_not_start(ended) {
        return find(OF_CONTAINER, message).map_or(UNKNOWN, |rule| rule.remedy).to_owned();
    }
    let words =
        if message.trim().is_empty() { case.log_ends.get(name).map_or("", String::as_str) } else { message };
    let known = match (ended.reason.as_deref(), kill_of(case, ended), ended.exit_code) {
        (Some(reasons::OOM_KILLED), _, _) => {
            Some(format!("raise resources.limits.memory of container {name}, or have it use less"))
        }
        (Some(reasons::CONTAINER_STATUS_UNKNOWN), _, _) => Some("nothing: it is created again".to_owned()),
        (_, Some(kill), _) => remedy_of_kill(kill).map(str::to_owned),
        (_, None, 0) => Some(
            "if it should terminate, set restartPolicy to OnFailure or Never; if it should keep running, its \
             program must not go into the background"
                .to_owned(),
        ),
        (_, None, _) if of_log_end(words).is_some() => of_log_end(words).map(str::to_owned),
        (_, None, 126 | 127) => {
            Some(format!("check command and args of container {name} against what is in its image"))
        }
        (_, None, 137) => Some(format!(
            "someone killed it, or the kernel did because the whole host was out of memory (journalctl -k | \
             grep -i \"out of \
             memory\"), or its own program did; {NO_RECORD}"
        )),
        (_, None, 143) => {
            Some(format!("another process or a user on this host may have terminated it; {NO_RECORD}"))
        }
        (_, None, 132 | 134 | 135 | 136 | 139) => Some(
            "its program has a bug, or is built for another processor; a core dump helps its authors"
                .to_owned(),
        ),
        (_, None, _) => None,
    };
    known.map_or_else(|| logs.clone(), |known| format!("{known}; {logs}"))
}

/// What is said of a container that something terminated.
const NO_RECORD: &str = "hostlet has no record of stopping it, but remembers that only until it restarts";

/// The stop by hostlet that a container ended with, if one is known; it may also have ended just before. Times of a status are whole
/// seconds.
fn kill_of<'c>(case: &'c ExplainInput<'_>, ended: &ContainerStateTerminated) -> Option<&'c ContainerKill> {
    let (_, id) = ended.container_id.as_deref()?.split_once("://")?;
    let finished = ended.finished_at.as_ref().map_or(Timestamp::MAX, |time| time.0);
    let latest = finished.saturating_add(Duration::from_secs(1)).unwrap_or(Timestamp::MAX);
    case.kills().iter().find(|kill| kill.id.as_str() == id && kill.at <= latest)
}

/// What to do about a container that hostlet stopped; `None` if only its log may help.
fn remedy_of_kill(kill: &ContainerKill) -> Option<&'static str> {
    kill.why.contains("probe").then_some(
        "have its program answer the probe, or raise the probe's timeoutSeconds and failureThreshold; hostlet \
         events shows what the probe found",
    )
}

/// The remedy for an unknown cause.
pub(super) const UNKNOWN: &str = "correct the manifest according to the message, or check the container runtime's log (journalctl -u containerd)";

/// `, because its program is not in its image: exec: …`, or only the message if the cause is unknown.
pub(super) fn because(rule: Option<&Rule>, message: &str) -> String {
    let words = cut(innermost_message(message));
    match rule {
        Some(rule) => format!(", because {}: {words}", rule.cause),
        None => format!(": {words}"),
    }
}

pub(super) fn could_not_start(ended: &ContainerStateTerminated) -> bool {
    matches!(ended.reason.as_deref(), Some(reasons::START_ERROR | reasons::CONTAINER_CANNOT_RUN))
}

/// Keeps the last [`MAX_QUOTED`] characters, because the end of an output is the most informative part.
fn cut(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_QUOTED {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - MAX_QUOTED).collect();
    format!("… {end}")
}

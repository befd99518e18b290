//! How a container ended, in words, and what to do about it.

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use nix::sys::signal::Signal;

use super::case::ExplainInput;
use super::causes::{OF_CONTAINER, find, of_log_end, own_words};
use super::explanation::one_line;

/// Characters of a message that are quoted: more is for the log.
const MAX_QUOTED: usize = 300;
/// A program that a signal ended has this exit code and the signal's number more.
const SIGNALLED: i32 = 128;

/// `ended with exit code 1, and said last: "no such table"`.
pub(super) fn how_it_ended(case: &ExplainInput<'_>, name: &str, ended: &ContainerStateTerminated) -> String {
    let message = ended.message.as_deref().map(one_line).filter(|message| !message.is_empty());
    if could_not_start(ended) {
        return match message {
            Some(message) => format!("cannot be started{}", because(find(OF_CONTAINER, &message), &message)),
            None => "cannot be started".to_owned(),
        };
    }
    let how = match (ended.reason.as_deref(), ended.exit_code) {
        (Some("OOMKilled"), 0 | 137) => "was killed because it used more memory than its limit".to_owned(),
        (Some("OOMKilled"), code) => {
            format!(
                "ended with exit code {code} after the kernel killed one of its processes, because it used more memory than its limit"
            )
        }
        (Some("ContainerStatusUnknown"), _) => {
            "has ended while nobody looked, so its exit code is not known".to_owned()
        }
        (_, 0) => "ended by itself with exit code 0, which is success".to_owned(),
        (_, 126) => "ended with exit code 126: its command is no program that can be run".to_owned(),
        (_, 127) => "ended with exit code 127: its command was not found".to_owned(),
        (_, 137) => "was killed (exit code 137, SIGKILL), and not for its memory limit".to_owned(),
        (_, 139) => "crashed (exit code 139, segmentation fault)".to_owned(),
        (_, 143) => "was told to end (exit code 143, SIGTERM)".to_owned(),
        (_, code) => match Signal::try_from(code - SIGNALLED) {
            Ok(signal) => format!("was ended by a signal (exit code {code}, {signal})"),
            Err(_) => format!("ended with exit code {code}"),
        },
    };
    match (message, case.log_ends.get(name)) {
        (Some(message), _) => format!("{how}, and said last: {:?}", cut(&message)),
        (None, Some(line)) => format!("{how}; its log ends with {:?}", cut(line)),
        (None, None) => how,
    }
}

/// What to do about a container that ended so.
pub(super) fn remedy_of_end(
    case: &ExplainInput<'_>,
    name: &str,
    ended: Option<&ContainerStateTerminated>,
    logs: &str,
) -> String {
    let logs = format!("see what it wrote: {logs}");
    let Some(ended) = ended else { return logs };
    let message = ended.message.as_deref().unwrap_or_default();
    if could_not_start(ended) {
        return find(OF_CONTAINER, message).map_or(UNKNOWN, |rule| rule.remedy).to_owned();
    }
    let words =
        if message.trim().is_empty() { case.log_ends.get(name).map_or("", String::as_str) } else { message };
    let known = match (ended.reason.as_deref(), ended.exit_code) {
        (Some("OOMKilled"), _) => {
            Some(format!("raise resources.limits.memory of container {name}, or have it use less"))
        }
        (Some("ContainerStatusUnknown"), _) => Some("none is needed: it is made anew".to_owned()),
        (_, 0) => Some(
            "if it is meant to end, set restartPolicy to OnFailure or Never; if it is meant to stay, its program must not go \
             into the background"
                .to_owned(),
        ),
        (_, _) if of_log_end(words).is_some() => of_log_end(words).map(str::to_owned),
        (_, 126 | 127) => {
            Some(format!("check command and args of container {name} against what is in its image"))
        }
        (_, 137) => Some(
            "somebody killed it, or the kernel did because the whole host was out of memory (journalctl -k | grep -i \"out of \
             memory\"), or its own program did"
                .to_owned(),
        ),
        (_, 143) => Some(
            "somebody or something told it to end (a parent process, a person on this host); hostlet did not".to_owned(),
        ),
        (_, 132 | 134 | 135 | 136 | 139) => Some(
            "its program has a mistake, or is built for another processor than this one; with a core dump its authors can find it"
                .to_owned(),
        ),
        (_, _) => None,
    };
    known.map_or_else(|| logs.clone(), |known| format!("{known}; {logs}"))
}

/// What to do when nobody knows the cause.
pub(super) const UNKNOWN: &str = "correct what the message names in the manifest, or look into the container runtime's log (journalctl -u containerd)";

/// `, because its program is not in its image: exec: …`, or the words alone if the cause is not known.
pub(super) fn because(rule: Option<&super::causes::Rule>, message: &str) -> String {
    let words = cut(own_words(message));
    match rule {
        Some(rule) => format!(", because {}: {words}", rule.cause),
        None => format!(": {words}"),
    }
}

pub(super) fn could_not_start(ended: &ContainerStateTerminated) -> bool {
    matches!(ended.reason.as_deref(), Some("StartError" | "ContainerCannotRun"))
}

/// At most [`MAX_QUOTED`] characters, with the end of longer texts: what a program says last tells most.
fn cut(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_QUOTED {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - MAX_QUOTED).collect();
    format!("… {end}")
}

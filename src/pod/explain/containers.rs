//! The explanation of a pod whose sandbox stands: its worst container is its cause.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};

use super::case::Case;
use super::explanation::{Explanation, Verdict, one_line};
use super::images::image;
use super::life::{starting, step, words};
use crate::pod::Activity;
use crate::pod::status::{Phase, human_duration};

/// Characters of a message that are quoted: more is for the log.
const MAX_QUOTED: usize = 300;

/// Explains a pod by its containers.
pub(super) fn containers(case: &Case<'_>) -> Explanation {
    let phase = case.status.and_then(|status| Phase::parse(status.phase.as_deref()?));
    match phase {
        Some(Phase::Succeeded) => return completed(case),
        Some(Phase::Failed) => return failed(case),
        Some(Phase::Pending | Phase::Running) | None => {}
    }
    let waiting = case.statuses().iter().find_map(|status| waits(case, status));
    waiting.or_else(|| retries(case)).or_else(|| going_on(case)).unwrap_or_else(|| runs(case))
}

/// A container that waits, and not because its turn has not come.
fn waits(case: &Case<'_>, status: &ContainerStatus) -> Option<Explanation> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let message = waiting.message.as_deref().unwrap_or_default();
    let name = &status.name;
    let wanted = case.view().spec.containers.iter().find(|c| c.name == *name);
    let wanted_image = wanted.and_then(|c| c.image.as_deref()).unwrap_or(&status.image);
    if let Some(explanation) = image(case, name, wanted_image, reason, message) {
        return Some(explanation);
    }
    let explanation = match reason {
        "CrashLoopBackOff" => return Some(crash_loop(case, status)),
        "CreateContainerConfigError" => {
            let sentence = format!("Container {name} cannot be made from what its manifest says: {message}");
            Explanation::wrong(sentence).do_this(if is_root_refused(message) {
                "set securityContext.runAsUser to a user other than 0, or remove runAsNonRoot"
            } else if message.starts_with("services have not yet been read") {
                "nothing: hostlet starts it as soon as the API server has told of its services"
            } else if lacks_object(message) {
                "create what the message names, and the container starts at once; or correct the container"
            } else {
                "correct the container in the manifest"
            })
        }
        "CreateContainerError" => {
            let sentence = format!("The container runtime cannot make container {name}: {}", words(message));
            Explanation::wrong(sentence).do_this(runtime_remedy(message))
        }
        "RunContainerError" => {
            let sentence =
                format!("The container runtime cannot start container {name}: {}", start_error(message));
            Explanation::wrong(sentence).do_this(runtime_remedy(message))
        }
        _ => return None,
    };
    Some(explanation.at(format!("container {name} ({reason})")).next(case.retry_of(name)))
}

fn crash_loop(case: &Case<'_>, status: &ContainerStatus) -> Explanation {
    let name = &status.name;
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let ended = last.or_else(|| status.state.as_ref()?.terminated.as_ref());
    let times = match status.restart_count {
        0 => String::new(),
        1 => ", restarted once so far".to_owned(),
        n => format!(", restarted {n} times so far"),
    };
    let how = ended.map_or_else(|| "ends again and again".to_owned(), how_it_ended);
    Explanation::wrong(format!("Container {name} {how}{times}; it is restarted with growing pauses"))
        .at(format!("container {name} (CrashLoopBackOff)"))
        .since(ended.and_then(|ended| ended.finished_at.as_ref()).map(|time| time.0))
        .next(case.retry_of(name))
        .do_this(crash_remedy(case, name, ended))
}

/// `ended with exit code 1, and said last: "no such table"`.
fn how_it_ended(ended: &ContainerStateTerminated) -> String {
    let message = ended.message.as_deref().map(one_line).filter(|message| !message.is_empty());
    if could_not_start(ended) {
        let why = message.map(|message| format!(": {}", cut(start_error(&message)))).unwrap_or_default();
        return format!("cannot be started{why}");
    }
    let how = match (ended.reason.as_deref(), ended.exit_code) {
        (Some("OOMKilled"), _) => "was killed because it used more memory than its limit".to_owned(),
        (_, 0) => "ended by itself with exit code 0, which is success".to_owned(),
        (_, 126) => "ended with exit code 126: its command is no program that can be run".to_owned(),
        (_, 127) => "ended with exit code 127: its command was not found".to_owned(),
        (_, 137) => "was killed (exit code 137)".to_owned(),
        (_, 139) => "crashed (exit code 139, segmentation fault)".to_owned(),
        (_, 143) => "was told to end (exit code 143, SIGTERM)".to_owned(),
        (_, code) => format!("ended with exit code {code}"),
    };
    match message {
        Some(message) => format!("{how}, and said last: {:?}", cut(&message)),
        None => how,
    }
}

/// runc's own words: containerd wraps them in the names of all that handed them on, at times twice.
fn start_error(message: &str) -> &str {
    let own = message.rsplit_once("container process: ").map_or(words(message), |(_, own)| own);
    own.strip_suffix(": unknown").unwrap_or(own)
}

fn could_not_start(ended: &ContainerStateTerminated) -> bool {
    matches!(ended.reason.as_deref(), Some("StartError" | "ContainerCannotRun"))
}

fn crash_remedy(case: &Case<'_>, name: &str, ended: Option<&ContainerStateTerminated>) -> String {
    let logs = format!("see what it wrote: {} --previous", case.logs(name));
    let Some(ended) = ended else { return logs };
    if could_not_start(ended) {
        return runtime_remedy(ended.message.as_deref().unwrap_or_default()).to_owned();
    }
    match (ended.reason.as_deref(), ended.exit_code) {
        (Some("OOMKilled"), _) => {
            format!("raise resources.limits.memory of container {name}, or have it use less; {logs}")
        }
        (_, 0) => format!(
            "if it is meant to end, set restartPolicy to OnFailure or Never; if it is meant to stay, its program must not \
             go into the background; {logs}"
        ),
        (_, 126 | 127) => {
            format!("check command and args of container {name} against what is in its image; {logs}")
        }
        (_, _) => logs,
    }
}

/// What to do about a container that the runtime refuses.
fn runtime_remedy(message: &str) -> &'static str {
    if message.contains("executable file not found") || message.contains("no such file or directory") {
        "check command and args of the container: the program must be in its image, at that path"
    } else if message.contains("permission denied") {
        "the program may not be run: check its permissions in the image, runAsUser and securityContext"
    } else if message.contains("no command specified") {
        "the image names no program: give the container a command"
    } else {
        "correct what the message names in the manifest, or look into the container runtime's log (journalctl -u containerd)"
    }
}

/// Whether `runAsNonRoot` keeps a container from running.
fn is_root_refused(message: &str) -> bool {
    message.contains("non-root") || message.contains("runAsNonRoot")
}

/// Whether a ConfigMap or Secret, or a key of one, keeps a container from being made.
fn lacks_object(message: &str) -> bool {
    let is_absent = message.starts_with("configmap ") || message.starts_with("secret ");
    (is_absent && message.ends_with(" not found")) || message.starts_with("couldn't find key ")
}

fn completed(case: &Case<'_>) -> Explanation {
    let since =
        case.statuses().iter().filter_map(|s| ended(s)?.finished_at.as_ref()).map(|time| time.0).max();
    let sentence = match case.statuses().len() {
        0 | 1 => "The pod has run to its end, with exit code 0",
        _ => "The pod has run to its end: all its containers ended with exit code 0",
    };
    Explanation::new(Verdict::Completed, sentence).at("done").since(since)
}

/// The pod has ended for good, and not well.
fn failed(case: &Case<'_>) -> Explanation {
    let told = case.status.and_then(|status| Some((status.reason.as_deref()?, status.message.as_deref()?)));
    if let Some((reason, message)) = told {
        let sentence = format!("The pod was ended: {message}");
        return Explanation::wrong(sentence).at(reason).do_this("start it anew by changing its manifest");
    }
    let bad = case.statuses().iter().find_map(|s| Some((s, ended(s).filter(|ended| ended.exit_code != 0)?)));
    let Some((status, ended)) = bad else {
        return Explanation::wrong("The pod has failed").at("done");
    };
    let policy = case.view().spec.restart_policy.as_deref().unwrap_or("Always");
    let name = &status.name;
    Explanation::wrong(format!(
        "Container {name} {}; restartPolicy {policy} does not restart it",
        how_it_ended(ended)
    ))
    .at("done")
    .since(ended.finished_at.as_ref().map(|time| time.0))
    .do_this(format!(
        "see what it wrote: {}; then correct and change the manifest to run it anew",
        case.logs(name)
    ))
}

fn ended(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

/// Work that failed without a container's status saying why.
fn retries(case: &Case<'_>) -> Option<Explanation> {
    let Activity::Retrying { error } = case.activity() else { return None };
    let error = error.as_deref().unwrap_or("no reason was given");
    Some(
        Explanation::wrong(format!("The last step for this pod failed: {}", words(error)))
            .at(step(case.activity()))
            .since(case.active_since())
            .next(case.next_work())
            .do_this("correct what the message names; hostlet goes on by itself"),
    )
}

/// Containers that are not up yet, with nothing wrong.
fn going_on(case: &Case<'_>) -> Option<Explanation> {
    let is_up = |status: &ContainerStatus| {
        let state = status.state.as_ref();
        state.is_some_and(|state| state.running.is_some()) || is_over(case, status)
    };
    let status = case.statuses().iter().find(|status| !is_up(status))?;
    let Some(ended) = ended(status) else { return Some(starting(case, case.activity())) };
    let again = format!("Container {} {}; it is being restarted", status.name, how_it_ended(ended));
    Some(
        Explanation::wrong(again).at(step(case.activity())).since(case.active_since()).do_this(crash_remedy(
            case,
            &status.name,
            Some(ended),
        )),
    )
}

/// Whether a container has ended and stays so.
fn is_over(case: &Case<'_>, status: &ContainerStatus) -> bool {
    let policy = case.view().spec.restart_policy.as_deref();
    match (ended(status), policy) {
        (Some(_), Some("Never")) => true,
        (Some(ended), Some("OnFailure")) => ended.exit_code == 0,
        (_, _) => false,
    }
}

fn runs(case: &Case<'_>) -> Explanation {
    let started = |status: &ContainerStatus| -> Option<Timestamp> {
        Some(status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
    };
    let since = case.statuses().iter().filter_map(started).max();
    let up = case.statuses().iter().filter(|status| started(status).is_some()).count();
    let restarts: i32 = case.statuses().iter().map(|status| status.restart_count).sum();
    let count =
        if up == 1 { "its container is up".to_owned() } else { format!("its {up} containers are up") };
    let age = since.map(|since| format!(" for {}", human_duration(case.now.duration_since(since))));
    let sentence = format!("The pod runs: {count}{}", age.unwrap_or_default());
    let mut explanation = Explanation::new(Verdict::Fine, sentence).at("running").since(since);
    if restarts > 0 {
        let last = case.statuses().iter().find_map(|status| {
            let ended = status.last_state.as_ref()?.terminated.as_ref()?;
            Some(format!("container {} {}", status.name, how_it_ended(ended)))
        });
        let last = last.map(|last| format!(", the last one after {last}")).unwrap_or_default();
        explanation.also.push(format!("There were {restarts} restarts{last}."));
    }
    explanation
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

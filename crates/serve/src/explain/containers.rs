//! Explains a pod with a ready sandbox by its worst container.

use hostlet_base::causes::find;
use hostlet_base::{human_duration, reasons};
use hostlet_observe::status::Activity;
use hostlet_pod::{ContainerKind, PodPhase, is_static, restarts_after};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};

use super::case::{ExplainInput, LOW_ON_RESOURCE};
use super::causes::{OF_CONFIG, OF_CONTAINER};
use super::endings::{UNKNOWN, because, how_it_ended, remedy_of_end};
use super::explanation::{Explanation, Verdict, one_line};
use super::images::image;
use super::probes::{probes, startup_gate};
use super::steps::{failed_step, starting, step};

/// Explains a pod by its containers.
pub(super) fn containers(case: &ExplainInput<'_>) -> Explanation {
    match case.status.and_then(PodPhase::of) {
        Some(PodPhase::Succeeded) => return completed(case),
        Some(PodPhase::Failed) => return failed(case),
        Some(PodPhase::Pending | PodPhase::Running) | None => {}
    }
    let waiting = case.all_statuses().find_map(|status| waits(case, status));
    let unsettled = waiting.or_else(|| retries(case)).or_else(|| startup_gate(case));
    let unsettled = unsettled.or_else(|| initializes(case)).or_else(|| in_progress(case));
    let unsettled = unsettled.or_else(|| probes(case)).or_else(|| readiness_gates(case));
    unsettled.unwrap_or_else(|| runs(case))
}

/// A container that waits because of a problem.
fn waits(case: &ExplainInput<'_>, status: &ContainerStatus) -> Option<Explanation> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let message = waiting.message.as_deref().unwrap_or_default();
    let name = &status.name;
    let image_in_spec = case.container(name).and_then(|c| c.spec.image.as_deref()).unwrap_or(&status.image);
    if let Some(explanation) = image(case, name, image_in_spec, reason, message) {
        return Some(explanation);
    }
    let explanation = match reason {
        reasons::CRASH_LOOP_BACK_OFF => return Some(crash_loop(case, status)),
        reasons::POST_START_HOOK_ERROR => Explanation::wrong(format!(
            "{} was stopped, because its postStart hook failed: {}",
            case.subject(name),
            one_line(message)
        ))
        .do_this(
            "correct lifecycle.postStart in the manifest, or what it calls; the container is started again",
        ),
        reasons::CREATE_CONTAINER_CONFIG_ERROR
        | reasons::CREATE_CONTAINER_ERROR
        | reasons::RUN_CONTAINER_ERROR => {
            let (what, group) = match reason {
                reasons::CREATE_CONTAINER_CONFIG_ERROR => ("configured as specified", OF_CONFIG),
                reasons::CREATE_CONTAINER_ERROR => ("created", OF_CONTAINER),
                _ => ("started", OF_CONTAINER),
            };
            let cause = find(group, message);
            Explanation::wrong(format!("{} cannot be {what}{}", case.subject(name), because(cause, message)))
                .do_this(cause.map_or(UNKNOWN, |cause| cause.remedy))
        }
        _ => return None,
    };
    Some(explanation.at(format!("container {name} ({reason})")).next(case.retry_of(name)))
}

fn crash_loop(case: &ExplainInput<'_>, status: &ContainerStatus) -> Explanation {
    let name = &status.name;
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let ended = last.or_else(|| status.state.as_ref()?.terminated.as_ref());
    let times = match status.restart_count {
        0 => "; it is restarted".to_owned(),
        1 => "; restarted once so far".to_owned(),
        n => format!("; restarted {n} times so far"),
    };
    let how =
        ended.map_or_else(|| "terminates repeatedly".to_owned(), |ended| how_it_ended(case, name, ended));
    Explanation::wrong(format!("{} {how}{times}, with growing back-off", case.subject(name)))
        .at(format!("container {name} (CrashLoopBackOff)"))
        .since(ended.and_then(|ended| ended.finished_at.as_ref()).map(|time| time.0))
        .next(case.retry_of(name))
        .do_this(remedy_of_end(case, name, ended, &format!("{} --previous", case.logs(name))))
}

fn completed(case: &ExplainInput<'_>) -> Explanation {
    let since =
        case.statuses().iter().filter_map(|s| ended(s)?.finished_at.as_ref()).map(|time| time.0).max();
    let sentence = match case.statuses().len() {
        0 | 1 => "The pod has run to its end, with exit code 0",
        _ => "The pod has run to its end: all of its containers terminated with exit code 0",
    };
    Explanation::new(Verdict::Completed, sentence).at("done").since(since)
}

/// A failed pod.
fn failed(case: &ExplainInput<'_>) -> Explanation {
    let reported =
        case.status.and_then(|status| Some((status.reason.as_deref()?, status.message.as_deref()?)));
    if let Some((reason, message)) = reported {
        let sentence = format!("The pod was stopped: {}", message.trim_end());
        let remedy = match (reason, is_static(case.pod)) {
            (reasons::TERMINATED, true) => {
                "nothing: it starts again with the host, or when the shutdown is cancelled"
            }
            (reasons::TERMINATED, false) => {
                "nothing: its controller replaces it; without one, create it again"
            }
            (reasons::DEADLINE_EXCEEDED, _) => {
                "raise spec.activeDeadlineSeconds, or have it finish earlier; its controller may replace it"
            }
            (reasons::EVICTED, _) if message.starts_with(LOW_ON_RESOURCE) => {
                "free what the node is short of, or let the pod request what it uses: pods that use no more than they request are \
                 evicted last; its controller replaces it; without one, create it again"
            }
            (reasons::EVICTED, _) => {
                "have it write less, or raise its limits (resources.limits.ephemeral-storage, emptyDir.sizeLimit); its \
                 controller replaces it; without one, create it again"
            }
            (_, _) => "change its manifest to start it again",
        };
        return Explanation::wrong(sentence).at(reason).do_this(remedy);
    }
    let bad = case.all_statuses().find_map(|s| Some((s, ended(s).filter(|ended| ended.exit_code != 0)?)));
    let Some((status, ended)) = bad else {
        return Explanation::wrong("The pod has failed").at("done");
    };
    let name = &status.name;
    let own = case.container(name).and_then(|container| container.spec.restart_policy.as_deref());
    let policy = own.or(case.view().spec.restart_policy.as_deref()).unwrap_or("Always");
    Explanation::wrong(format!(
        "{} {}; restartPolicy {policy} does not restart it",
        case.subject(name),
        how_it_ended(case, name, ended)
    ))
    .at("done")
    .since(ended.finished_at.as_ref().map(|time| time.0))
    .do_this(format!(
        "{}; then change the manifest to run it again",
        remedy_of_end(case, name, Some(ended), &case.logs(name))
    ))
}

fn ended(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

/// A failed step that no container status shows.
fn retries(case: &ExplainInput<'_>) -> Option<Explanation> {
    let Activity::Retrying { error } = case.activity() else { return None };
    Some(failed_step(case, error.as_deref()).since(case.active_since()))
}

/// An init container that runs, or a sidecar that has not started yet.
fn initializes(case: &ExplainInput<'_>) -> Option<Explanation> {
    let inits = case.status?.init_container_statuses.as_deref()?;
    let is_open = |status: &ContainerStatus| match case.container(&status.name)?.kind {
        ContainerKind::Init => Some(status.state.as_ref()?.running.as_ref()?.started_at.clone()),
        ContainerKind::Sidecar if status.started != Some(true) => {
            Some(status.state.as_ref()?.running.as_ref()?.started_at.clone())
        }
        ContainerKind::Sidecar | ContainerKind::Main | ContainerKind::Ephemeral => None,
    };
    let (index, status, since) = inits.iter().enumerate().find_map(|(n, s)| Some((n, s, is_open(s)?)))?;
    let since = since.map(|time| time.0);
    let (name, place) = (&status.name, format!("{} of {}", index + 1, inits.len()));
    let age = since.map(|since| format!(" for {}", human_duration(case.now.duration_since(since))));
    let age = age.unwrap_or_default();
    let is_in_hook = matches!(case.activity(), Activity::PostStartHook { container } if container == name);
    let (sentence, remedy) = match case.container(name)?.kind {
        ContainerKind::Sidecar if is_in_hook => (
            format!(
                "{} ({place}) has run{age}, and its postStart hook has not ended yet",
                case.subject(name)
            ),
            "wait; the containers after it start once its postStart hook has succeeded",
        ),
        ContainerKind::Sidecar => (
            format!(
                "{} ({place}) has run{age}, and its startup probe has not succeeded yet",
                case.subject(name)
            ),
            "wait; the containers after it start once its startup probe has succeeded",
        ),
        ContainerKind::Init | ContainerKind::Main | ContainerKind::Ephemeral => (
            format!("The pod is initializing: init container {name} ({place}) has run{age}"),
            "wait until it exits; the containers after it start then",
        ),
    };
    Some(
        Explanation::under_way(sentence)
            .at(format!("init container {name}"))
            .since(since)
            .do_this(format!("{remedy}; its output is in `{}`", case.logs(name))),
    )
}

/// A pod whose containers are ready, and which waits for conditions that others set.
fn readiness_gates(case: &ExplainInput<'_>) -> Option<Explanation> {
    let conditions = case.status?.conditions.as_deref().unwrap_or_default();
    let unready = conditions
        .iter()
        .find(|condition| condition.reason.as_deref() == Some(reasons::READINESS_GATES_NOT_READY))?;
    let gates = one_line(unready.message.as_deref().unwrap_or_default());
    Some(
        Explanation::under_way(format!("The pod runs, but is not ready because of its readiness gates: {gates}"))
            .at("readiness gates")
            .since(unready.last_transition_time.as_ref().map(|time| time.0))
            .do_this(
                "wait for the controllers that set these conditions of the pod (spec.readinessGates), or see why they do not",
            ),
    )
}

/// Containers that are still starting, without a problem.
fn in_progress(case: &ExplainInput<'_>) -> Option<Explanation> {
    let is_up = |status: &ContainerStatus| {
        let state = status.state.as_ref();
        state.is_some_and(|state| state.running.is_some()) || is_over(case, status)
    };
    let status = case.statuses().iter().find(|status| !is_up(status))?;
    let Some(ended) = ended(status) else {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        let restarts_all = waiting
            .is_some_and(|waiting| waiting.reason.as_deref() == Some(reasons::RESTARTING_ALL_CONTAINERS));
        let mut explanation = starting(case, case.activity());
        if restarts_all {
            let why = "A restart rule of a container that exited has all containers of the pod start again.";
            explanation.also.push(why.to_owned());
        }
        return Some(explanation);
    };
    let name = &status.name;
    let again = format!("{} {}; it is being restarted", case.subject(name), how_it_ended(case, name, ended));
    let logs = format!("{} --previous", case.logs(name));
    Some(
        Explanation::wrong(again)
            .at(step(case.activity()))
            .since(case.active_since())
            .do_this(remedy_of_end(case, name, Some(ended), &logs)),
    )
}

/// Whether a container has terminated and is not restarted.
fn is_over(case: &ExplainInput<'_>, status: &ContainerStatus) -> bool {
    let Some((ended, container)) = ended(status).zip(case.container(&status.name)) else { return false };
    !restarts_after(case.view().spec, container.spec, ended.exit_code)
}

fn runs(case: &ExplainInput<'_>) -> Explanation {
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
            Some(format!("container {} {}", status.name, how_it_ended(case, &status.name, ended)))
        });
        let last = last.map(|last| format!(", the last one after {last}")).unwrap_or_default();
        explanation.also.push(format!("There were {restarts} restarts{last}."));
    }
    explanation
}

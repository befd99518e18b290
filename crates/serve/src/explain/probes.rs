//! Explains a pod whose containers run, but not as their probes want it.

use hostlet_pod::{FailingProbe, ProbeKind};
use k8s_openapi::api::core::v1::ContainerStatus;

use super::case::ExplainInput;
use super::explanation::Explanation;

/// The first container whose probes fail or have not succeeded yet.
pub(super) fn probes(case: &ExplainInput<'_>) -> Option<Explanation> {
    let running =
        |status: &&ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let mut running = case.all_statuses().filter(running);
    running.find_map(|status| fails(case, status).or_else(|| has_not_succeeded(case, status)))
}

/// A sidecar whose startup probe fails: the containers after it wait.
pub(super) fn startup_gate(case: &ExplainInput<'_>) -> Option<Explanation> {
    let inits = case.status?.init_container_statuses.as_deref()?;
    let closed = inits.iter().filter(|status| status.started != Some(true));
    let mut explanation = closed.filter_map(|status| fails(case, status)).next()?;
    let gate = "The containers after it start once its startup probe has succeeded.";
    explanation.also.push(gate.to_owned());
    Some(explanation)
}

fn fails(case: &ExplainInput<'_>, status: &ContainerStatus) -> Option<Explanation> {
    let is_own = |probe: &&FailingProbe| {
        let id = status.container_id.as_deref().and_then(|id| id.split_once("://"));
        probe.container == status.name && id.is_none_or(|(_, id)| id == probe.id.as_str())
    };
    let (name, probe) = (&status.name, case.failing_probes.iter().find(is_own)?);
    let (answer, subject) = (&probe.answer, case.subject(name));
    let logs = case.logs(name);
    Some(match probe.kind {
        ProbeKind::Readiness => Explanation::wrong(match status.ready {
            true => format!("{subject} is about to become unready: its readiness probe fails: {answer}"),
            false => format!("{subject} is not ready: its readiness probe fails: {answer}"),
        })
        .do_this(format!("see why the program does not answer as the probe expects ({logs}), or correct readinessProbe")),
        ProbeKind::Liveness => Explanation::wrong(format!(
            "{subject} is restarted if its liveness probe keeps failing: {answer}"
        ))
        .do_this(format!("see why the program does not answer as the probe expects ({logs}), or correct livenessProbe")),
        ProbeKind::Startup => Explanation::under_way(format!(
            "{subject} has not started yet: its startup probe fails: {answer}"
        ))
        .do_this(format!(
            "wait; if it never succeeds, see {logs}, correct startupProbe, or give it more time (failureThreshold, \
             periodSeconds)"
        )),
    }
    .at(format!("container {name} ({} probe)", probe.kind.as_str().to_lowercase()))
    .since(Some(probe.since)))
}

fn has_not_succeeded(case: &ExplainInput<'_>, status: &ContainerStatus) -> Option<Explanation> {
    let name = &status.name;
    let container = case.container(name)?.spec;
    let subject = case.subject(name);
    let (kind, sentence) = if status.started != Some(true) && container.startup_probe.is_some() {
        (ProbeKind::Startup, format!("{subject} has not started yet: its startup probe has not succeeded"))
    } else if !status.ready && container.readiness_probe.is_some() {
        (ProbeKind::Readiness, format!("{subject} is not ready yet: its readiness probe has not succeeded"))
    } else {
        return None;
    };
    let kind = kind.as_str().to_lowercase();
    let since = status.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0);
    Some(Explanation::under_way(sentence).at(format!("container {name} ({kind} probe)")).since(since))
}

//! Explains a pod by the first cause that applies, in this order. `containers` explains containers.

use hostlet_base::causes::find;
use hostlet_base::{human_duration, reasons};
use hostlet_observe::status::{Activity, ImagePull, READY_TO_START, cause_in};
use hostlet_pod::has_ended;
use jiff::SignedDuration;

use super::case::{Disposition, ExplainInput, NodeProblem};
use super::causes::{OF_SANDBOX, OF_STEP, manifest_remedy, runtime_remedy};
use super::containers::containers;
use super::endings::because;
use super::explanation::{Explanation, Verdict, one_line};
use super::pressure::pressure_sentences;
use super::resize::with_resize;
use super::steps::{failed_step, starting, step};

const RUNTIME_LOG: &str = "check the container runtime's log (journalctl -u containerd)";

/// Explains a pod.
pub(crate) fn explain(case: &ExplainInput<'_>) -> Explanation {
    let cause = rejected(case)
        .or_else(|| hung(case))
        .or_else(|| terminating(case))
        .or_else(|| not_started(case))
        .or_else(|| sandbox(case))
        .unwrap_or_else(|| containers(case));
    let cause = with_runtime(case, with_resize(case, cause));
    let mut explanation = Explanation { pod: case.name(), ..cause };
    let pulls = case.pulls_beside();
    explanation.also.extend(pulls.map(|ImagePull { owner, image }| {
        format!("Meanwhile the image {image} is being pulled for {owner}.")
    }));
    explanation.also.extend(case.waiting_ephemeral().map(|(name, reason, message)| {
        format!("The ephemeral container {name} cannot be started ({reason}): {}.", one_line(message))
    }));
    if case.is_under_pressure() {
        explanation.also.extend(pressure_sentences(case.pressure));
        if case.pressure.active().is_empty() {
            explanation.also.push("The node is not under pressure any more.".to_owned());
        }
    }
    if case.shutdown.is_some() && explanation.verdict == Verdict::Fine {
        explanation
            .also
            .push("The node is shutting down; pods of lower priority are terminated first.".to_owned());
    }
    let Some(problem) = case.problem else { return explanation };
    let file = &problem.origin;
    let what = one_line(&problem.message);
    if case.origin.is_some_and(|own| *own != problem.origin) {
        explanation.also.push(format!("The manifest {file} also defines this pod, and is not used: {what}."));
    } else if explanation.verdict == Verdict::Fine {
        let now = "The pod runs an earlier version of its manifest, because the manifest is broken now";
        explanation = Explanation {
            verdict: Verdict::Wrong,
            sentence: format!("{now}: {file}: {what}"),
            step: Some("reading the manifest".to_owned()),
            since: Some(problem.since),
            remedy: Some(manifest_remedy(&problem.message)),
            ..explanation
        };
    } else {
        explanation
            .also
            .push(format!("Its manifest {file} is broken, and changes in it have no effect: {what}"));
    }
    explanation
}

fn rejected(case: &ExplainInput<'_>) -> Option<Explanation> {
    if case.disposition != Disposition::Rejected {
        return None;
    }
    let status = case.status?;
    let message = status.message.as_deref().unwrap_or_default();
    let message = message.strip_prefix("Pod was rejected: ").unwrap_or(message);
    let remedy = match status.reason.as_deref() {
        Some(reasons::POD_FEATURE_UNSUPPORTED) => {
            "remove these fields from the manifest; hostlet does not support them yet, and would run something else \
             if it left them out by itself"
        }
        Some(reasons::SYSCTL_FORBIDDEN) => {
            "remove the sysctl from spec.securityContext.sysctls, or permit it with allowedUnsafeSysctls in the \
             configuration"
        }
        Some(reasons::OUT_OF_PODS) => "remove manifests of other pods, or raise maxPods in the configuration",
        Some(reasons::EVICTED) => {
            "free what the node is short of, as its conditions say, then create the pod again; under memory \
             pressure alone a pod with \
             resources.requests is admitted"
        }
        Some(reasons::NODE_PORTS) => {
            "change hostPort (with hostNetwork: containerPort) of this pod or of the one that has the port already"
        }
        Some(reasons::NODE_SHUTDOWN) => {
            "wait until the host is up again: a pod of a manifest starts then, and one of the API server is replaced by \
             its controller"
        }
        Some(reasons::NODE_AFFINITY) => {
            "remove spec.nodeSelector and required node affinity, or give this node the labels that they require \
             (nodeLabels)"
        }
        Some(reasons::POD_OS_NOT_SUPPORTED) => {
            "remove spec.os and spec.nodeSelector, or set them to linux: this node runs Linux"
        }
        Some(reasons::APP_ARMOR) => {
            "enable AppArmor in the kernel of this host (lsm=…,apparmor), or remove appArmorProfile"
        }
        Some(reason) if reason.starts_with(reasons::OUT_OF) => {
            "lower resources.requests in the manifest, remove other pods, or reserve less for the host \
             (systemReserved, \
             kubeReserved)"
        }
        Some(_) | None => "change the manifest as the message says",
    };
    let since = status.start_time.as_ref().map(|time| time.0);
    let sentence = format!("This node rejected the pod: {message}");
    Some(Explanation::wrong(sentence).at("admission").since(since).do_this(remedy))
}

/// A hung call for this pod.
fn hung(case: &ExplainInput<'_>) -> Option<Explanation> {
    case.hung.as_ref().filter(|hung| !hung.is_of_node).and_then(|_| hung_call(case))
}

fn hung_call(case: &ExplainInput<'_>) -> Option<Explanation> {
    let hung = case.hung.as_ref()?;
    let took = SignedDuration::try_from(hung.took).unwrap_or_default();
    let sentence = format!(
        "The container runtime has not answered for {}: {} on {}",
        human_duration(took),
        hung.call,
        hung.subject
    );
    let remedy = "check the container runtime's log (journalctl -u containerd); restarting the runtime ends the call \
                  and does not affect running containers";
    let since = case.now.checked_sub(took).ok();
    Some(Explanation::wrong(sentence).at(step(case.activity())).since(since).do_this(remedy))
}

/// A runtime that does not respond explains everything; the observed state of the pod is older.
fn with_runtime(case: &ExplainInput<'_>, mut found: Explanation) -> Explanation {
    let of_node = case.hung.as_ref().filter(|hung| hung.is_of_node).and_then(|_| hung_call(case));
    let runtime_problem = match &case.node_problem {
        Some(NodeProblem::Runtime(what)) => {
            let remedy = runtime_remedy(what);
            let sentence = format!("hostlet cannot act on the pod: {what}");
            Some(Explanation::wrong(sentence).at("waiting for the container runtime").do_this(remedy))
        }
        Some(NodeProblem::Network(_)) | None => of_node,
    };
    let Some(runtime_problem) = runtime_problem else { return found };
    match found.verdict {
        Verdict::Wrong | Verdict::UnderWay => match case.disposition {
            Disposition::Rejected => found,
            Disposition::Undecided(_) => runtime_problem,
            Disposition::Desired | Disposition::WaitingForPredecessor | Disposition::Removed => {
                let mut also = vec![format!("Before that: {}.", found.sentence.trim_end_matches('.'))];
                also.append(&mut found.also);
                Explanation { also, ..runtime_problem }
            }
        },
        Verdict::Fine => {
            found.also.push(format!("This is the last observed state. {}.", runtime_problem.sentence));
            found
        }
        Verdict::Completed | Verdict::Unknown => found,
    }
}

/// A terminating pod.
fn terminating(case: &ExplainInput<'_>) -> Option<Explanation> {
    let is_removed = case.disposition == Disposition::Removed;
    if !is_removed && case.terminating_since.is_none() {
        return None;
    }
    let since = case.terminating_since.or(case.active_since());
    let is_late =
        case.status.is_some_and(|status| status.reason.as_deref() == Some(reasons::DEADLINE_EXCEEDED));
    let why = match (is_removed, case.evicted(), case.shutdown) {
        (true, _, _) => ": its manifest was removed or replaced".to_owned(),
        (false, None, _) if is_late => ": it was active for longer than activeDeadlineSeconds".to_owned(),
        (false, Some(message), _) => format!(": it was evicted: {}", one_line(message).trim_end_matches('.')),
        (false, None, Some(_)) => ": the node is shutting down".to_owned(),
        (false, None, None) => String::new(),
    };
    let explanation = match case.activity() {
        Activity::Retrying { error } => {
            let error = error.as_deref().unwrap_or("the container runtime gave no reason");
            let cause = find(&OF_STEP, error);
            Explanation::wrong(format!("The pod cannot be stopped{}", because(cause, error)))
                .next(case.next_work())
                .do_this(cause.map_or(RUNTIME_LOG, |cause| cause.remedy))
        }
        Activity::StoppingContainers { grace_seconds } => {
            let begun = case.active_since().unwrap_or(case.now);
            let killed = begun.checked_add(SignedDuration::from_secs(*grace_seconds)).ok();
            let left = killed.map_or(0, |at| at.duration_since(case.now).as_secs().max(0));
            let who = if case.running.is_empty() {
                "its containers are stopping".to_owned()
            } else {
                still_run(&case.running)
            };
            Explanation::under_way(format!(
                "The pod is being stopped{why}; {who}, with {left} s left before the kill"
            ))
            .next(killed)
            .do_this(
                "wait; a container that uses up its grace period does not stop on SIGTERM: handle that signal \
                 in its program, or lower terminationGracePeriodSeconds",
            )
        }
        Activity::Idle
        | Activity::QueuedStart
        | Activity::SettingUpVolumes
        | Activity::PreparingClaims
        | Activity::MakingSandbox
        | Activity::PullingImage(_)
        | Activity::CreatingContainer { .. }
        | Activity::StartingContainer { .. }
        | Activity::PostStartHook { .. }
        | Activity::StoppingSandbox
        | Activity::UnpreparingClaims
        | Activity::CleaningUp
        | Activity::BackingOff => Explanation::under_way(format!("The pod is being stopped{why}")),
    };
    Some(explanation.at(step(case.activity())).since(since))
}

fn still_run(names: &[String]) -> String {
    match names {
        [one] => format!("container {one} still runs"),
        many => format!("containers {} still run", many.join(", ")),
    }
}

/// A pod without a status.
fn not_started(case: &ExplainInput<'_>) -> Option<Explanation> {
    if case.disposition == Disposition::WaitingForPredecessor {
        let sentence = "The pod waits until the earlier pod of the same name has terminated: a changed manifest \
        is a new pod, \
                        and the two never run at once";
        let wait =
            "wait; the earlier pod has its terminationGracePeriodSeconds to stop, see `hostlet timeline`";
        return Some(Explanation::under_way(sentence).at("waiting for the predecessor").do_this(wait));
    }
    if let Disposition::Undecided(Some(awaited)) = &case.disposition {
        let sentence = format!("The pod waits until it can be given what only one pod may use: {awaited}");
        let wait = "check that the device plugin or driver of that resource runs on this node, see `hostlet devices`; hostlet \
                    retries automatically";
        return Some(Explanation::under_way(sentence).at("admission").do_this(wait));
    }
    if case.disposition == Disposition::Undecided(None) {
        let sentence = "hostlet has not decided yet whether the pod may run on this node";
        let wait = "wait; it decides once the container runtime has answered, the Node was read from the API server if there \
                    is one, and the pods that are preempted for this one have terminated";
        return Some(Explanation::under_way(sentence).at("admission").do_this(wait));
    }
    if case.status.is_some() {
        return None;
    }
    let explanation = Explanation::under_way("The pod was admitted and is about to start");
    Some(explanation.at(step(case.activity())).since(case.active_since()))
}

/// A pod without a ready sandbox.
fn sandbox(case: &ExplainInput<'_>) -> Option<Explanation> {
    let status = case.status?;
    // The sandbox of a pod that ended is removed.
    if has_ended(status) {
        return None;
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let condition = conditions.iter().find(|c| c.type_ == READY_TO_START && c.status == "False")?;
    let message = cause_in(condition.message.as_deref()?);
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    let again = case.next_work();
    if let Some(problem) = message.strip_prefix("network is not ready: ") {
        let sentence = format!("The pod waits for the node's pod network: {problem}");
        let remedy = "set the network up: a CNI configuration in /etc/cni/net.d and its plugins in \
        /opt/cni/bin, or where \
                      the container runtime looks for them; hostlet retries automatically";
        return Some(Explanation::wrong(sentence).at("network").since(since).next(again).do_this(remedy));
    }
    if let Some(problem) = message.strip_prefix("Failed to create pod sandbox: ") {
        let cause = find(OF_SANDBOX, problem);
        return Some(
            Explanation::wrong(format!("The pod's sandbox cannot be created{}", because(cause, problem)))
                .at("sandbox")
                .since(since)
                .next(again)
                .do_this(cause.map_or(RUNTIME_LOG, |cause| cause.remedy)),
        );
    }
    let is_past_sandbox = match case.activity() {
        Activity::PullingImage(_)
        | Activity::CreatingContainer { .. }
        | Activity::StartingContainer { .. }
        | Activity::PostStartHook { .. }
        | Activity::BackingOff => true,
        Activity::Idle
        | Activity::QueuedStart
        | Activity::SettingUpVolumes
        | Activity::PreparingClaims
        | Activity::MakingSandbox
        | Activity::StoppingContainers { .. }
        | Activity::StoppingSandbox
        | Activity::UnpreparingClaims
        | Activity::CleaningUp
        | Activity::Retrying { .. } => false,
    };
    if is_past_sandbox {
        return None;
    }
    Some(match case.activity() {
        Activity::Retrying { error: Some(error) } => failed_step(case, Some(error)).since(since),
        activity => starting(case, activity).since(case.active_since()),
    })
}

//! Other kubelets on this host, what they left, and whether a first start would be refused.

use hostlet_engine::ownership::{Foreign, History, StartRejection, about_remains, first_start_rejection};

use super::super::facts::Facts;
use super::super::report::Finding;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![kubelets(facts), pods(facts)]
}

fn kubelets(facts: &Facts) -> Finding {
    const CHECK: &str = "kubelet";
    let ownership = &facts.ownership;
    let running = match &ownership.kubelets {
        Ok(running) => running,
        Err(why) => return Finding::unknown(CHECK, why.to_string()),
    };
    const STOP: &str = "systemctl disable --now kubelet";
    if !running.is_empty() {
        let running: Vec<String> = running.iter().map(ToString::to_string).collect();
        let text = format!("another kubelet runs ({}): each removes the other's pods", running.join("; "));
        return Finding::wrong(CHECK, text, STOP);
    }
    if ownership.is_kubelet_enabled {
        let text = "no other kubelet runs, but the service kubelet starts at the next boot";
        return Finding::warning(CHECK, text, STOP);
    }
    if !ownership.leftovers.is_empty() {
        let left: Vec<String> = ownership.leftovers.iter().map(|path| path.display().to_string()).collect();
        let text = format!("no other kubelet runs; one left {}", left.join(", "));
        return Finding::warning(
            CHECK,
            text,
            "kubeadm reset removes them, if nobody needs them; hostlet does not use them",
        );
    }
    Finding::ok(CHECK, "no other kubelet, and nothing left of one")
}

fn pods(facts: &Facts) -> Finding {
    const CHECK: &str = "pods";
    const ADOPT: &str = "hostlet --adopt-foreign-pods takes over the runtime and its pods";
    const DRAIN: &str = "kubectl drain this node first";
    let ownership = &facts.ownership;
    let (Some(pods), Ok(kubelets)) = (&ownership.pods, &ownership.kubelets) else {
        return Finding::unknown(CHECK, "the runtime does not answer, so its pods cannot be seen");
    };
    let remains = match &ownership.remains {
        Ok(remains) => remains.clone(),
        Err(why) => return Finding::unknown(CHECK, why.to_string()),
    };
    let foreign = Foreign::new(kubelets.clone(), pods.clone(), remains, &ownership.recorded);
    let count = match pods.len() {
        1 => "1 pod in the runtime".to_owned(),
        count => format!("{count} pods in the runtime"),
    };
    match ownership.history {
        History::RanBefore => match about_remains(&foreign.remains) {
            None => Finding::ok(CHECK, format!("{count}; hostlet ran here before")),
            Some(remains) => Finding::warning(
                CHECK,
                format!("{count}; hostlet ran here before, and {remains}"),
                "hostlet leaves it alone; it is safe to remove if no other program needs it",
            ),
        },
        History::FirstStart => {
            let socket = &facts.config.runtime.runtime_socket;
            match first_start_rejection(socket, foreign) {
                None => Finding::ok(CHECK, format!("{count}; ready for the first start")),
                Some(_) if facts.config.adopt_foreign_pods => match &ownership.unrunnable {
                    Err(why) => Finding::unknown(CHECK, why.to_string()),
                    Ok(unrunnable) if unrunnable.is_empty() => Finding::ok(
                        CHECK,
                        format!("{count}; the first start takes them over (adoptForeignPods)"),
                    ),
                    Ok(unrunnable) => {
                        let rejection = StartRejection::Unrunnable { pods: unrunnable.clone() };
                        let text = format!("{count}; the first start would be refused. {rejection}");
                        Finding::wrong(CHECK, text, DRAIN)
                    }
                },
                Some(rejection) => {
                    let text = format!("{count}; the first start would be refused. {rejection}");
                    match &ownership.unrunnable {
                        Ok(unrunnable) if unrunnable.is_empty() => Finding::wrong(CHECK, text, ADOPT),
                        Ok(unrunnable) => {
                            let takeover = StartRejection::Unrunnable { pods: unrunnable.clone() };
                            Finding::wrong(
                                CHECK,
                                format!("{text} That would be refused, too. {takeover}"),
                                DRAIN,
                            )
                        }
                        Err(why) => {
                            Finding::wrong(CHECK, text, format!("{ADOPT}, if it can run these ({why})"))
                        }
                    }
                }
            }
        }
    }
}

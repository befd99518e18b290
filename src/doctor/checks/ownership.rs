//! Other kubelets on this host, what they left, and whether a first start would be refused.

use super::super::facts::Facts;
use super::super::report::Finding;
use crate::ownership::{History, first_start_refusal};

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
    let ownership = &facts.ownership;
    let (Some(pods), Ok(kubelets)) = (&ownership.pods, &ownership.kubelets) else {
        return Finding::unknown(CHECK, "the runtime does not answer, so its pods cannot be seen");
    };
    let count = match pods.len() {
        1 => "1 pod in the runtime".to_owned(),
        count => format!("{count} pods in the runtime"),
    };
    match ownership.history {
        History::RanBefore => Finding::ok(CHECK, format!("{count}; hostlet ran here before")),
        History::FirstStart => {
            let socket = &facts.config.runtime.runtime_socket;
            let kubelets = kubelets.clone();
            match first_start_refusal(socket, pods.clone(), &ownership.recorded, kubelets) {
                None => Finding::ok(CHECK, format!("{count}; ready for the first start")),
                Some(_) if facts.config.adopt_foreign_pods => {
                    Finding::ok(CHECK, format!("{count}; the first start takes them over (adoptForeignPods)"))
                }
                Some(refusal) => Finding::wrong(
                    CHECK,
                    format!("{count}; the first start would be refused. {refusal}"),
                    "hostlet --adopt-foreign-pods takes over what is there",
                ),
            }
        }
    }
}

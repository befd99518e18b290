//! Why the node is not ready, in upstream's words. Pure.

use std::time::Duration;

use tokio::time::Instant;

use hostlet_base::go_duration;
use hostlet_observe::pleg::{self, RELIST_THRESHOLD};
use hostlet_runtime::cri::{RuntimeCondition, RuntimeStatus};

/// The runtime counts as down this long after it last reported that it is ready; upstream's constant.
const RUNTIME_THRESHOLD: Duration = Duration::from_secs(30);

/// The health of the parts that a node needs.
#[derive(Clone, Debug)]
pub(super) struct Health<'a> {
    /// The runtime's last status; `None` until it first responds.
    pub(super) status: Option<&'a RuntimeStatus>,
    /// When it last reported that it is ready.
    pub(super) ready_at: Option<Instant>,
    pub(super) pleg: &'a pleg::Health,
    /// Why volumes cannot be used.
    pub(super) storage: Option<&'a str>,
    /// Other reasons.
    pub(super) others: &'a [String],
}

/// All reasons why the node is not ready: the runtime first, then its network, its volumes, and the rest.
pub(super) fn unready(health: &Health<'_>, now: Instant) -> Vec<String> {
    let mut errors = Vec::new();
    match health.ready_at {
        None => errors.push("container runtime status check may not have completed yet".to_owned()),
        Some(at) if now.saturating_duration_since(at) >= RUNTIME_THRESHOLD => {
            errors.push("container runtime is down".to_owned());
        }
        Some(_) => {}
    }
    if !health.pleg.is_healthy(now) {
        errors.push(format!(
            "PLEG is not healthy: pleg was last seen active {} ago; threshold is {}",
            go_duration(now.saturating_duration_since(health.pleg.last_relist)),
            go_duration(RELIST_THRESHOLD),
        ));
    }
    let not_ready = |what: &str, name: &str, condition: &RuntimeCondition| {
        let RuntimeCondition { status, reason, message } = condition;
        (!status).then(|| format!("{what} not ready: {name}={status} reason:{reason} message:{message}"))
    };
    match health.status {
        None => errors.push("network state unknown".to_owned()),
        Some(status) => {
            errors.extend(not_ready("container runtime", "RuntimeReady", &status.runtime));
            errors.extend(not_ready("container runtime network", "NetworkReady", &status.network));
        }
    }
    errors.extend(health.storage.map(str::to_owned));
    errors.extend_from_slice(health.others);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_cause_has_upstreams_words() {
        let start = Instant::now();
        let condition = |status: bool| RuntimeCondition {
            status,
            reason: "NetworkPluginNotReady".to_owned(),
            message: "no CNI".to_owned(),
        };
        let mut status =
            RuntimeStatus { runtime: condition(true), network: condition(true), ..RuntimeStatus::default() };
        let pleg = pleg::Health { last_relist: start, error: None };
        let of = |status: Option<&RuntimeStatus>, ready_at, others: &[String], at| {
            unready(&Health { status, ready_at, pleg: &pleg, storage: None, others }, at)
        };
        assert_eq!(of(Some(&status), Some(start), &[], start), [""; 0]);
        assert_eq!(
            of(None, None, &[], start),
            ["container runtime status check may not have completed yet", "network state unknown"]
        );
        let late = start + Duration::from_secs(30);
        assert_eq!(of(Some(&status), Some(start), &[], late), ["container runtime is down"]);
        status.network = condition(false);
        let network = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no CNI";
        assert_eq!(of(Some(&status), Some(start), &[], start), [network]);
        status.runtime = condition(false);
        let runtime =
            "container runtime not ready: RuntimeReady=false reason:NetworkPluginNotReady message:no CNI";
        let others = ["node is shutting down".to_owned()];
        assert_eq!(
            of(Some(&status), Some(start), &others, start),
            [runtime, network, "node is shutting down"]
        );
        let storage = Some("CSINode is not yet initialized");
        let health =
            Health { status: Some(&status), ready_at: Some(start), pleg: &pleg, storage, others: &others };
        assert_eq!(unready(&health, start)[2..], ["CSINode is not yet initialized", "node is shutting down"]);
        status =
            RuntimeStatus { runtime: condition(true), network: condition(true), ..RuntimeStatus::default() };
        let later = start + Duration::from_millis(180_500);
        assert_eq!(
            of(Some(&status), Some(later), &[], later),
            ["PLEG is not healthy: pleg was last seen active 3m0.5s ago; threshold is 3m0s"]
        );
    }
}

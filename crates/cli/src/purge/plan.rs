//! What a purge removes and what it leaves. Pure.

use std::path::PathBuf;

use hostlet_base::{PodRef, PodUid};
use hostlet_dra::{CLAIMS_FILE, RecordedClaim};
use hostlet_engine::ownership::OtherKubelet;
use hostlet_host::DaemonUnit;

use super::facts::PurgeFacts;

/// Why nothing is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Obstacle {
    /// It would start the pods again.
    #[error("hostlet runs: stop it first (systemctl disable --now {})", unit.name())]
    DaemonRuns {
        /// The unit that runs it on a host with the packages.
        unit: DaemonUnit,
    },
    /// Whether pods still run is unknown, and what they use must not be removed.
    #[error(
        "the container runtime does not answer ({0}), so hostlet's pods may still run: start it, then purge again"
    )]
    RuntimeAway(String),
    /// Which pods are hostlet's is unknown.
    #[error(
        "{0}; which pods of the runtime are hostlet's is unknown: remove them yourself (crictl pods, crictl rmp), then purge \
         again"
    )]
    StoreUnreadable(String),
    /// The recorded pods run on another runtime, and this one cannot tell whether they are gone.
    #[error(
        "hostlet's pods ran on {}, and its configuration names {}: purge with the configuration that the daemon had \
         (--config FILE, with containerRuntimeEndpoint)",
        joined(claimed), socket.display()
    )]
    OtherRuntime {
        /// Where they ran.
        claimed: Vec<PathBuf>,
        /// The runtime of the configuration.
        socket: PathBuf,
    },
    /// Another kubelet may have taken the pods over.
    #[error("whether another kubelet has hostlet's pods is unknown: {0}")]
    KubeletsUnknown(String),
}

fn joined(sockets: &[PathBuf]) -> String {
    sockets.iter().map(|socket| socket.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgePlan {
    /// Pods to end and remove in the runtime.
    pub pods: Vec<PodRef>,
    /// Pods whose directories, volumes, logs and cgroups are removed: these, and recorded ones that the runtime does not have.
    pub uids: Vec<PodUid>,
    /// hostlet's own files and directories.
    pub files: Vec<PathBuf>,
    /// Whether the iptables chains are removed. A kubelet that has pods here needs them.
    pub has_chains: bool,
    /// Claims that stay prepared: drivers only unprepare them for a kubelet.
    pub claims: Vec<RecordedClaim>,
    /// Why it is unknown which claims stay prepared, if it is.
    pub unknown_claims: Option<String>,
    /// Pods of the runtime that are not hostlet's. They are left alone.
    pub foreign: Vec<PodRef>,
    /// Other kubelets that run here: every pod is theirs, also one that hostlet started once.
    pub other_kubelets: Vec<OtherKubelet>,
}

impl PurgePlan {
    /// Whether there is nothing to remove.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.uids.is_empty() && self.files.is_empty()
    }
}

/// The plan, or why nothing may be removed.
pub(crate) fn purge_plan(facts: PurgeFacts) -> Result<PurgePlan, Obstacle> {
    if facts.daemon_runs {
        return Err(Obstacle::DaemonRuns { unit: facts.unit });
    }
    let recorded = match facts.recorded {
        Ok(recorded) => recorded,
        // Without any pod it does not matter whose they are.
        Err(why)
            if facts.in_runtime.as_ref().is_ok_and(|pods| pods.is_empty())
                && facts.with_files.as_ref().is_ok_and(|pods| pods.is_empty()) =>
        {
            tracing::debug!(%why, "the store cannot be read, and there are no pods");
            Default::default()
        }
        Err(why) => return Err(Obstacle::StoreUnreadable(why.to_string())),
    };
    let (other_kubelets, are_kubelets_known) = match facts.other_kubelets {
        Ok(others) => (others, true),
        Err(_) if recorded.is_empty() => (Vec::new(), false),
        Err(why) => return Err(Obstacle::KubeletsUnknown(why.to_string())),
    };
    let recorded = if other_kubelets.is_empty() { recorded } else { Default::default() };
    if !recorded.is_empty() && !facts.elsewhere.is_empty() {
        return Err(Obstacle::OtherRuntime { claimed: facts.elsewhere, socket: facts.socket });
    }
    let in_runtime = match facts.in_runtime {
        Ok(pods) => pods,
        Err(_) if recorded.is_empty() => Default::default(),
        Err(why) => return Err(Obstacle::RuntimeAway(why.to_string())),
    };
    let (pods, foreign): (Vec<PodRef>, Vec<PodRef>) =
        in_runtime.into_iter().partition(|pod| recorded.contains_key(&pod.uid));
    let is_alone = foreign.is_empty() && other_kubelets.is_empty() && are_kubelets_known;
    let has_only_ours =
        is_alone && facts.with_files.is_ok_and(|uids| uids.iter().all(|uid| recorded.contains_key(uid)));
    let mut files = facts.own_files;
    // Another kubelet may have made all of these, if it has a pod here, or hostlet has no files.
    let may_be_ours = has_only_ours && !files.is_empty();
    let has_chains = facts.has_chains && may_be_ours;
    let has_claims = facts.claims.as_ref().map_or(true, |claims| !claims.is_empty());
    if may_be_ours {
        // The next kubelet reads there which claims to unprepare.
        let is_needed = |file: &PathBuf| has_claims && file.ends_with(CLAIMS_FILE);
        files.extend(facts.common_files.into_iter().filter(|file| !is_needed(file)));
    }
    let uids = recorded.into_keys().collect();
    // Another kubelet goes on with the claims.
    let claims = if other_kubelets.is_empty() { facts.claims } else { Ok(Vec::new()) };
    let (claims, unknown_claims) = match claims {
        Ok(claims) => (claims, None),
        Err(why) => (Vec::new(), Some(why.to_string())),
    };
    Ok(PurgePlan { pods, uids, files, has_chains, claims, unknown_claims, foreign, other_kubelets })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

//! Probes of containers (Kubernetes docs, "Liveness, Readiness, and Startup Probes"): when each is due, what it answers, and what
//! follows for its container. One task for all of them; no connection stays open between two runs. Stops and starts no container: it writes
//! [`ProbeResults`](hostlet_pod::ProbeResults), which plans and statuses read.

mod answer;
mod attempt;
mod exec;
mod grpc;
mod http_get;
mod metrics;
mod port;
mod schedule;
mod state;
mod stored;
mod target;
mod task;
mod tcp;

pub(crate) use http_get::http_get_request;
pub(crate) use metrics::ProbeMetrics;
pub(crate) use port::PortError;
pub(crate) use task::{Prober, ProberDeps};

/// The user agent of probes; of hooks with `lifecycle` as the purpose.
pub(crate) fn user_agent(purpose: &str) -> String {
    let version = hostlet_base::KUBERNETES_VERSION.trim_start_matches('v');
    let minor = version.rfind('.').map_or(version, |dot| &version[..dot]);
    format!("kube-{purpose}/{minor}")
}

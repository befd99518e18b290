//! What is wrong with this node, as several endpoints show it: its runtime, its host, its image archives, its certificate. Knows no
//! endpoint.

use std::path::PathBuf;

use hostlet_base::node::NodePressure;
use hostlet_cluster::api::CertificateReport;
use hostlet_image::preload::PreloadProblem;
use hostlet_observe::pleg::PlegHandle;
use hostlet_runtime::cri::{Calls, RuntimeStatus};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::view::{CertificateView, Problem};
use crate::explain::NodeProblem;

/// The state of the container runtime.
#[derive(Clone)]
pub struct RuntimeHealth {
    /// Its own report; `None` until it has answered.
    pub status: watch::Receiver<Option<RuntimeStatus>>,
    /// Its pods and the state of relisting.
    pub pleg: PlegHandle,
    /// Its calls in progress.
    pub calls: Calls,
}

impl RuntimeHealth {
    /// What prevents the whole node from running pods, if anything.
    pub(super) fn problem(&self) -> Option<NodeProblem> {
        let health = self.pleg.health();
        let relist = health.borrow();
        if let Some(error) = &relist.error {
            let how =
                if relist.is_healthy(Instant::now()) { "for a moment" } else { "for more than 3 minutes" };
            let what = format!("the container runtime has not answered {how}: {error}");
            return Some(NodeProblem::Runtime(what));
        }
        match &*self.status.borrow() {
            Some(status) if !status.runtime.status => {
                let what = format!("the container runtime is not ready: {}", status.runtime.message);
                Some(NodeProblem::Runtime(what))
            }
            Some(status) if !status.network.status => Some(NodeProblem::Network(format!(
                "the pod network is not ready: {}",
                status.network.message
            ))),
            Some(_) => None,
            None => Some(NodeProblem::Runtime("the container runtime has not answered yet".to_owned())),
        }
    }
}

/// Problems of the host, a sentence each; `None` if there is none.
#[derive(Clone)]
pub struct HostProblems {
    /// Problems of the local store.
    pub store: watch::Receiver<Option<String>>,
    /// Leftover shims that cannot be killed.
    pub shims: watch::Receiver<Option<String>>,
    /// What pods of others have on this host.
    pub foreign: watch::Receiver<Option<String>>,
    /// Other kubelets on this runtime.
    pub kubelets: watch::Receiver<Option<String>>,
    /// Problems of the stored copies of objects.
    pub offline: watch::Receiver<Option<String>>,
    /// Who else can read the API server's credentials.
    pub exposure: watch::Receiver<Option<String>>,
    /// What the node is short of.
    pub pressure: watch::Receiver<NodePressure>,
}

/// The directory of image archives.
#[derive(Clone)]
pub struct ImageArchives {
    /// Where the archives are (`imagePreloadDir`), shown with each problem.
    pub dir: PathBuf,
    /// The unusable archives.
    pub problems: watch::Receiver<Vec<PreloadProblem>>,
}

impl ImageArchives {
    /// Its problems.
    pub(super) fn view(&self) -> Vec<Problem> {
        let reported = self.problems.borrow();
        let shown = reported.iter().map(|problem| Problem {
            file: problem.path.display().to_string(),
            pod: None,
            message: problem.message.clone(),
            since: problem.since,
        });
        shown.collect()
    }
}

/// The state of the client certificate now, if the node has or needs one.
pub(super) fn certificate_view(
    certificate: &watch::Receiver<Option<CertificateReport>>,
) -> Option<CertificateView> {
    let now = Timestamp::now();
    let report = certificate.borrow();
    let view = |report: &CertificateReport| CertificateView {
        state: report.sentences(now),
        is_problem: report.is_problem(now),
    };
    report.as_ref().map(view)
}

//! Test fixtures: the facts about a pod, and a check of its explanation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};

use super::{Disposition, ExplainInput, Explanation, HungCall, NodeProblem, PullSoFar, Verdict, explain};
use hostlet_base::node::NodePressure;
pub(super) use hostlet_base::testing::at;
use hostlet_observe::status::{Activity, WorkerActivity};
use hostlet_pod::{FailingProbe, ManifestOrigin, ManifestProblem, testing};

pub(super) const NOW: i64 = 1000;

/// The manifest of the pod.
pub(super) const OWN_FILE: &str = "/m/web.yaml";

/// The facts. By default a desired pod with one container and an idle worker.
pub(super) struct Facts {
    pub(super) pod: Pod,
    pub(super) disposition: Disposition,
    pub(super) status: Option<PodStatus>,
    pub(super) doing: WorkerActivity,
    pub(super) terminating_since: Option<Timestamp>,
    pub(super) running: Vec<String>,
    pub(super) hung: Option<HungCall>,
    pub(super) pull: Option<PullSoFar>,
    pub(super) problem: Option<ManifestProblem>,
    pub(super) node_problem: Option<NodeProblem>,
    pub(super) pressure: NodePressure,
    pub(super) shutdown: Option<Timestamp>,
    pub(super) failing_probes: Vec<FailingProbe>,
    pub(super) log_ends: BTreeMap<String, String>,
    pub(super) provider_failures: BTreeMap<String, String>,
    pub(super) preload_dir: Option<PathBuf>,
    pub(super) archives: Vec<(String, String)>,
    origin: ManifestOrigin,
}

impl Facts {
    pub(super) fn new() -> Self {
        Self {
            pod: testing::pod("web-n", "u", "Always", &["c"]),
            disposition: Disposition::Desired,
            status: None,
            doing: WorkerActivity {
                activity: Activity::Idle,
                since: at(990),
                pulling: BTreeSet::new(),
                retries: BTreeMap::new(),
                missing_secrets: Vec::new(),
                next_work: None,
                kills: Vec::new(),
            },
            terminating_since: None,
            running: Vec::new(),
            hung: None,
            pull: None,
            problem: None,
            node_problem: None,
            pressure: NodePressure::from([]),
            shutdown: None,
            failing_probes: Vec::new(),
            log_ends: BTreeMap::new(),
            provider_failures: BTreeMap::new(),
            preload_dir: None,
            archives: Vec::new(),
            origin: ManifestOrigin::File(OWN_FILE.into()),
        }
    }

    pub(super) fn status(mut self, status: Value) -> Self {
        self.status = Some(serde_json::from_value(status).unwrap());
        self
    }

    /// One container with this state and last state.
    pub(super) fn container(self, state: Value, last: Value, restarts: i32) -> Self {
        self.status(json!({"phase": "Running", "containerStatuses": [{
            "name": "c", "image": "img", "imageID": "", "ready": false, "restartCount": restarts,
            "state": state, "lastState": last,
        }]}))
    }

    pub(super) fn waiting(self, reason: &str, message: &str) -> Self {
        self.container(json!({"waiting": {"reason": reason, "message": message}}), json!({}), 0)
    }

    pub(super) fn crashed(self, ended: Value) -> Self {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        self.container(waiting, json!({"terminated": ended}), 3)
    }

    pub(super) fn no_sandbox(self, message: &str) -> Self {
        self.status(json!({"phase": "Pending", "conditions": [{
            "type": "PodReadyToStartContainers", "status": "False", "message": message,
        }]}))
    }

    pub(super) fn doing(mut self, activity: Activity) -> Self {
        self.doing.activity = activity;
        self
    }

    pub(super) fn retrying(self, error: &str) -> Self {
        self.doing(Activity::Retrying { error: Some(error.to_owned()) })
    }

    pub(super) fn next_work(mut self, second: i64) -> Self {
        self.doing.next_work = Some(at(second));
        self
    }

    pub(super) fn retry(mut self, second: i64) -> Self {
        self.doing.retries.insert("c".to_owned(), at(second));
        self
    }

    pub(super) fn explained(&self) -> Explanation {
        explain(&ExplainInput {
            pod: &self.pod,
            disposition: self.disposition.clone(),
            status: self.status.as_ref(),
            terminating_since: self.terminating_since,
            doing: Some(&self.doing),
            running: self.running.clone(),
            hung: self.hung.clone(),
            pull: self.pull.clone(),
            problem: self.problem.as_ref(),
            node_problem: self.node_problem.clone(),
            pressure: &self.pressure,
            shutdown: self.shutdown,
            failing_probes: self.failing_probes.clone(),
            log_ends: self.log_ends.clone(),
            provider_failures: self.provider_failures.clone(),
            preload_dir: self.preload_dir.as_deref(),
            archives: &self.archives,
            origin: Some(&self.origin),
            now: at(NOW),
        })
    }

    /// Checks the explanation verbatim.
    #[track_caller]
    pub(super) fn says(&self, verdict: Verdict, sentence: &str, remedy: &str) -> Explanation {
        let explanation = self.explained();
        assert_eq!(explanation.verdict, verdict, "{explanation:?}");
        assert!(explanation.sentence.contains(sentence), "{explanation:?}");
        assert!(explanation.remedy.as_deref().unwrap_or_default().contains(remedy), "{explanation:?}");
        assert_eq!(explanation.pod, "default/web-n");
        assert!(explanation.step.is_some(), "{explanation:?}");
        explanation
    }
}

pub(super) fn problem(file: &str, pod: Option<&str>) -> ManifestProblem {
    ManifestProblem {
        origin: ManifestOrigin::File(file.into()),
        pod: pod.map(str::to_owned),
        message: "line 3: spec.x: Required value\nline 4: y".to_owned(),
        since: at(900),
    }
}

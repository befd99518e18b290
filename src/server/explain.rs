//! `GET /v1/explain?pod=NAME`: gathers what is known of the pods of a name and has it explained. Decides nothing.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ControlServer, PullsView};
use crate::cri::{Call, ContainerState, Subject};
use crate::pod::explain::{
    Case, Explanation, HungCall, Named, Standing, explain as explained, is_meant, unknown,
};
use crate::pod::source::ManifestProblem;
use crate::pod::{Activity, Doing, Told, pod_ref};
use crate::types::{PodRef, PodUid};

/// Which pod.
#[derive(Deserialize)]
pub(super) struct PodQuery {
    pub(super) pod: String,
}

/// The explanations of all pods the name may mean; of none, one that says so.
pub(super) async fn explain(
    State((server, _)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<PodQuery>,
) -> Json<Vec<Explanation>> {
    let now = Timestamp::now();
    Json(server.explanations(&query.pod, &server.pulls(now).await, now))
}

/// A pod as the parts of the daemon know it.
struct Known {
    pod: Arc<Pod>,
    standing: Standing,
    told: Option<Told>,
}

impl ControlServer {
    fn explanations(&self, query: &str, pulls: &PullsView, now: Timestamp) -> Vec<Explanation> {
        let known = self.known();
        let problems = self.source.borrow().problems.clone();
        let names: Vec<PodRef> = known.iter().map(|known| pod_ref(&known.pod)).collect();
        let named: Vec<Named<'_>> =
            names.iter().map(|pod| Named { namespace: &pod.namespace, name: &pod.name }).collect();
        let meant = known.iter().zip(&named).filter(|(_, name)| is_meant(query, **name, &self.node));
        let mut explanations: Vec<Explanation> = meant
            .filter(|(known, name)| {
                // Of two pods of one name the later one is meant; it waits for the other.
                known.standing != Standing::Unwanted || named.iter().filter(|n| n == name).count() == 1
            })
            .map(|(known, _)| self.explained(known, pulls, &problems, now))
            .collect();
        if explanations.is_empty() {
            let is_it = |pod: &PodRef| {
                is_meant(query, Named { namespace: &pod.namespace, name: &pod.name }, &self.node)
            };
            let was_here = self.board.timeline().pods().iter().any(is_it);
            explanations.push(unknown(query, &named, &problems, was_here, &self.node));
        }
        explanations.sort_by(|a, b| a.pod.cmp(&b.pod));
        explanations
    }

    /// Every pod that is wanted, refused, or still there.
    fn known(&self) -> Vec<Known> {
        let mut told: HashMap<PodUid, Told> =
            self.board.all().into_iter().map(|told| (pod_ref(&told.pod).uid, told)).collect();
        let refused = self.refused.borrow().clone();
        let is_refused = |uid: &PodUid| refused.iter().any(|refused| pod_ref(&refused.pod).uid == *uid);
        let mut known: Vec<Known> = Vec::new();
        let manifests: Vec<Arc<Pod>> = self.source.borrow().pods.iter().map(|pod| pod.pod.clone()).collect();
        let api: Vec<Arc<Pod>> = self.api.borrow().pods.values().map(|pod| pod.pod.clone()).collect();
        for pod in manifests.into_iter().chain(api) {
            let uid = pod_ref(&pod).uid;
            if !is_refused(&uid) {
                let told = told.remove(&uid);
                known.push(Known { pod, standing: Standing::Wanted, told });
            }
        }
        known.extend(refused.into_iter().map(|refused| Known {
            pod: Arc::new(refused.told()),
            standing: Standing::Refused,
            told: None,
        }));
        for known in &mut known {
            let name = pod_ref(&known.pod).full_name();
            let has_predecessor = told.values().any(|told| pod_ref(&told.pod).full_name() == name);
            if known.standing == Standing::Wanted && known.told.is_none() && has_predecessor {
                known.standing = Standing::Behind;
            }
        }
        known.extend(told.into_values().map(|told| Known {
            pod: told.pod.clone(),
            standing: Standing::Unwanted,
            told: Some(told),
        }));
        known
    }

    fn explained(
        &self,
        known: &Known,
        pulls: &PullsView,
        problems: &[ManifestProblem],
        now: Timestamp,
    ) -> Explanation {
        let pod = pod_ref(&known.pod);
        let doing = self.board.doing(&pod.uid);
        let observed = self.pleg.cache().get(&pod);
        let running = observed.iter().flat_map(|status| &status.containers);
        let running = running.filter(|c| c.state == ContainerState::Running).map(|c| c.name.to_string());
        let told_status = known.told.as_ref().map(|told| &*told.status);
        let own_status = known.pod.status.as_ref().filter(|_| known.standing == Standing::Refused);
        explained(&Case {
            pod: &known.pod,
            standing: known.standing.clone(),
            status: told_status.or(own_status),
            terminating_since: known.told.as_ref().and_then(|told| told.terminating_since),
            doing: doing.as_ref(),
            running: running.collect(),
            hung: self.hung_call(&pod, doing.as_ref()),
            pull: pulls.of(&pod),
            problem: problems.iter().find(|problem| problem.pod.as_deref() == Some(&pod.to_string())),
            trouble: self.trouble(),
            now,
        })
    }

    /// The call that holds up a pod longest, if one hangs.
    fn hung_call(&self, pod: &PodRef, doing: Option<&Doing>) -> Option<HungCall> {
        let now = Instant::now();
        let is_about = |call: &Call| match &call.subject {
            Subject::Image(pulled) => match doing.map(|doing| &doing.activity) {
                Some(Activity::PullingImage { image, .. }) => pulled.starts_with(image.as_str()),
                Some(_) | None => false,
            },
            subject => self.pleg.cache().pod_of(subject).is_some_and(|of| of.uid == pod.uid),
        };
        let call = self.calls.hung(now).into_iter().find(is_about)?;
        Some(HungCall {
            call: call.operation.to_string(),
            subject: call.subject.to_string(),
            took: now.duration_since(call.since),
        })
    }
}

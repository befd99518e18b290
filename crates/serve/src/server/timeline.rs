//! `GET /v1/timeline?pod=NAME`: the timelines of pods of a name, including removed ones.

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ControlServer;
use super::explain::PodQuery;
use crate::explain::{PodName, matches_pod_name, nearest_names};
use hostlet_base::PodRef;
use hostlet_observe::status::timeline::PodTimeline;

/// The timelines of the pods that match a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineView {
    /// Removed pods first.
    pub pods: Vec<PodTimeline>,
    /// Similar names, if no pod matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

pub(super) async fn timeline(
    State((server, _)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<PodQuery>,
) -> Json<TimelineView> {
    let named = |pod: &PodRef| matches_pod_name(&query.pod, of(pod), &server.node);
    let pods = server.timeline.tracks(named);
    let nearest = if pods.is_empty() {
        let known = server.timeline.pods();
        let known: Vec<PodName<'_>> = known.iter().map(of).collect();
        nearest_names(&query.pod, &known, &server.node)
    } else {
        Vec::new()
    };
    Json(TimelineView { pods, nearest })
}

fn of(pod: &PodRef) -> PodName<'_> {
    PodName { namespace: &pod.namespace, name: &pod.name }
}

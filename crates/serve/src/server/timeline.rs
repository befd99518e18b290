//! `GET /v1/timeline?pod=NAME`: the timelines of pods of a name, including removed ones.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use hostlet_base::PodRef;
use hostlet_observe::status::timeline::{PodTimeline, Timeline};
use serde::{Deserialize, Serialize};

use super::explain::PodQuery;
use crate::explain::{PodName, matches_pod_name, nearest_names};

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

/// Where the timelines are.
pub struct TimelineEndpoint {
    /// Name of the node.
    pub node: String,
    /// The timelines of its pods.
    pub timeline: Timeline,
}

impl TimelineEndpoint {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new().route("/v1/timeline", get(timeline)).with_state(Arc::new(self))
    }
}

async fn timeline(
    State(endpoint): State<Arc<TimelineEndpoint>>,
    Query(query): Query<PodQuery>,
) -> Json<TimelineView> {
    let named = |pod: &PodRef| matches_pod_name(&query.pod, of(pod), &endpoint.node);
    let pods = endpoint.timeline.tracks(named);
    let nearest = if pods.is_empty() {
        let known = endpoint.timeline.pods();
        let known: Vec<PodName<'_>> = known.iter().map(of).collect();
        nearest_names(&query.pod, &known, &endpoint.node)
    } else {
        Vec::new()
    };
    Json(TimelineView { pods, nearest })
}

fn of(pod: &PodRef) -> PodName<'_> {
    PodName { namespace: &pod.namespace, name: &pod.name }
}

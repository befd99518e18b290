//! `GET /v1/timeline?pod=NAME`: what was done about the pods of a name, those that are gone included.

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ControlServer;
use super::explain::PodQuery;
use crate::explain::{PodName, is_meant, nearest_names};
use crate::status::timeline::Track;
use crate::types::PodRef;

/// The timelines of the pods a name may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineView {
    /// Those that are gone first.
    pub pods: Vec<Track>,
    /// Names like the one asked for, where no pod has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

pub(super) async fn timeline(
    State((server, _)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<PodQuery>,
) -> Json<TimelineView> {
    let named = |pod: &PodRef| is_meant(&query.pod, of(pod), &server.node);
    let pods = server.status_cache.timeline().tracks(named);
    let nearest = if pods.is_empty() {
        let known = server.status_cache.timeline().pods();
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

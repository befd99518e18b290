//! `GET /v1/events?pod=NAME`: the recent events of pods and of the node, one JSON object per line, now and as they happen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{StreamExt, stream};
use hostlet_observe::status::{RecentEvent, RecentEvents};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::explain::{PodName, matches_pod_name};

/// Least interval between two pieces of a watch, which bounds the output of a busy node.
const PAUSE: Duration = Duration::from_millis(100);

/// The query of `/v1/events`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsQuery {
    /// Name of a pod, with or without the node's appended, or `<namespace>/<name>`; missing for all pods and the node.
    pub pod: Option<String>,
    /// Whether to go on with later events.
    #[serde(default)]
    pub watch: bool,
}

impl EventsQuery {
    fn matches(&self, event: &RecentEvent, node: &str) -> bool {
        let Some(pod) = &self.pod else { return true };
        // An event of the node has no namespace.
        event
            .namespace
            .as_deref()
            .is_some_and(|namespace| matches_pod_name(pod, PodName { namespace, name: &event.name }, node))
    }
}

/// Where the events are.
pub struct EventsEndpoint {
    /// Name of the node.
    pub node: String,
    /// Its recent events.
    pub events: RecentEvents,
}

impl EventsEndpoint {
    /// The endpoint. Its watches end when cancelled.
    pub(super) fn routes(self, cancel: CancellationToken) -> Router {
        Router::new().route("/v1/events", get(events)).with_state((Arc::new(self), cancel))
    }
}

/// A line per event. A watch ends when the daemon stops.
async fn events(
    State((endpoint, cancel)): State<(Arc<EventsEndpoint>, CancellationToken)>,
    Query(query): Query<EventsQuery>,
) -> Response {
    let piece = |endpoint: &EventsEndpoint, query: &EventsQuery, after: u64| {
        let events = endpoint.events.after(after);
        let last = events.last().map_or(after, |event| event.number);
        let mut lines = Vec::new();
        for event in events.iter().filter(|event| query.matches(event, &endpoint.node)) {
            lines.extend(serde_json::to_vec(event).unwrap_or_default());
            lines.push(b'\n');
        }
        (lines, last)
    };
    let headers = [(CONTENT_TYPE, "application/x-ndjson")];
    if !query.watch {
        return (headers, piece(&endpoint, &query, 0).0).into_response();
    }
    let changes = endpoint.events.changes();
    let pieces = stream::unfold((endpoint, query, changes, 0, true), move |state| async move {
        let (endpoint, query, mut changes, after, is_first) = state;
        if !is_first {
            changes.changed().await.ok()?;
            tokio::time::sleep(PAUSE).await;
        }
        changes.mark_unchanged();
        let (lines, last) = piece(&endpoint, &query, after);
        Some((Ok::<_, Infallible>(Bytes::from(lines)), (endpoint, query, changes, last, false)))
    });
    let pieces = pieces.take_until(cancel.cancelled_owned());
    (headers, Body::from_stream(pieces)).into_response()
}

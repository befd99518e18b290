//! `GET /v1/events?pod=NAME`: the recent events of pods and of the node, one JSON object per line, now and as they happen.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use crate::explain::{PodName, matches_pod_name};
use hostlet_observe::status::RecentEvent;

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

/// A line per event. A watch ends when the daemon stops.
pub(super) async fn events(
    State((server, cancel)): State<(ControlServer, CancellationToken)>,
    Query(query): Query<EventsQuery>,
) -> Response {
    let piece = |server: &ControlServer, query: &EventsQuery, after: u64| {
        let events = server.events.after(after);
        let last = events.last().map_or(after, |event| event.number);
        let mut lines = Vec::new();
        for event in events.iter().filter(|event| query.matches(event, &server.node)) {
            lines.extend(serde_json::to_vec(event).unwrap_or_default());
            lines.push(b'\n');
        }
        (lines, last)
    };
    let headers = [(CONTENT_TYPE, "application/x-ndjson")];
    if !query.watch {
        return (headers, piece(&server, &query, 0).0).into_response();
    }
    let changes = server.events.changes();
    let pieces = stream::unfold((server, query, changes, 0, true), move |state| async move {
        let (server, query, mut changes, after, is_first) = state;
        if !is_first {
            changes.changed().await.ok()?;
            tokio::time::sleep(PAUSE).await;
        }
        changes.mark_unchanged();
        let (lines, last) = piece(&server, &query, after);
        Some((Ok::<_, Infallible>(Bytes::from(lines)), (server, query, changes, last, false)))
    });
    let pieces = pieces.take_until(cancel.cancelled_owned());
    (headers, Body::from_stream(pieces)).into_response()
}

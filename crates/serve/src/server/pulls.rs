//! `GET /v1/pulls`: the pulls in progress, their pods, and the download progress.

use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::control::ControlServer;
use super::view::{PullView, PullsView};
use hostlet_base::{PodUid, with_default_tag};

/// The pulls in progress, oldest first.
pub(super) async fn pulls(State((server, _)): State<(ControlServer, CancellationToken)>) -> Json<PullsView> {
    Json(server.pulls(Timestamp::now()).await)
}

impl ControlServer {
    /// The pulls in progress with the download progress, if there are any.
    pub(super) async fn pulls(&self, now: Timestamp) -> PullsView {
        let under_way = self.images.pulls();
        let at = Instant::now();
        let since = |moment: Instant| {
            let ago = SignedDuration::try_from(at.duration_since(moment)).unwrap_or_default();
            now.checked_sub(ago).unwrap_or(now)
        };
        let pulls: Vec<PullView> = under_way
            .iter()
            .map(|pull| PullView {
                pods: self.waiting_for(&pull.image),
                image: pull.image.clone(),
                since: since(pull.started.unwrap_or(pull.requested_at)),
                waits_for_turn: pull.started.is_none(),
            })
            .collect();
        let first = pulls.iter().filter(|pull| !pull.waits_for_turn).map(|pull| pull.since).min();
        let bytes = match first {
            Some(first) => self.arrivals.bytes_since(first).await,
            None => None,
        };
        PullsView { pulls, bytes }
    }

    /// The pods that this image is pulled for.
    fn waiting_for(&self, image: &str) -> Vec<String> {
        let waits = |uid: &PodUid| {
            let Some(doing) = self.activities.of(uid) else { return false };
            let mut wanted = doing.pulling.iter().map(|pull| &*pull.image).chain(doing.activity.image());
            wanted.any(|wanted| with_default_tag(wanted).is_ok_and(|wanted| wanted == image))
        };
        let pods = self.pods.all().into_values().map(|entry| entry.reference());
        let mut pods: Vec<String> = pods.filter(|pod| waits(&pod.uid)).map(|pod| pod.to_string()).collect();
        pods.sort();
        pods
    }
}

//! The pulls in progress, their pods, and the download progress. Knows no endpoint.

use std::sync::Arc;

use hostlet_base::{PodUid, with_default_tag};
use hostlet_image::{Arrivals, Images};
use hostlet_observe::status::{PodActivities, PodDirectory};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::view::{PullView, PullsView};

/// What is known of pulls.
#[derive(Clone)]
pub struct ImagePulls {
    /// The pulls in progress.
    pub images: Images,
    /// Their download progress.
    pub arrivals: Arc<dyn Arrivals>,
    /// The pods of this node.
    pub pods: PodDirectory,
    /// What their workers do.
    pub activities: PodActivities,
}

impl ImagePulls {
    /// The pulls in progress with the download progress, if there are any.
    pub(super) async fn view(&self, now: Timestamp) -> PullsView {
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

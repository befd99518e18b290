//! Watches this node's pods and publishes what they add up to, for as long as the daemon runs.

use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::pods::{ApiPods, ApiState};
use crate::api::{News, Objects, follow_with_recovery};

/// How long the server keeps one watch open, seconds. kube takes a watch that is silent for 5 s longer for dead, so this
/// bounds how long a connection that only seems to live can hide changes.
const WATCH_SECONDS: u32 = 120;

/// Publishes the pods assigned to `node_name`, until `cancel`. The first state comes when they were listed once, or could
/// not be; whatever goes wrong after that is told in the state and tried again with a back-off of up to 30 s, from where
/// the watch was if the server still knows, else from a new listing.
///
/// Until the first listing the state is what an earlier daemon knew: `known`.
pub async fn run(
    client: Client,
    node_name: String,
    known: Vec<Arc<Pod>>,
    tx: watch::Sender<ApiState>,
    cancel: CancellationToken,
) {
    // The Node authorizer wants exactly this selector.
    let config =
        watcher::Config::default().fields(&format!("spec.nodeName={node_name}")).timeout(WATCH_SECONDS);
    let mut state = ApiPods::after(known);
    tx.send_replace(state.state().clone());
    let following = follow_with_recovery(client, Objects::<Pod>::all, config, |news| {
        let changed = match news {
            News::Event(event) => state.apply(event, Timestamp::now()),
            News::Recovered => state.recovered(),
            News::FollowError(trouble) => {
                let is_news = state.failed(trouble.message.clone());
                if is_news {
                    tracing::warn!(error = trouble.message, "cannot watch this node's pods; trying again");
                }
                is_news
            }
        };
        if changed {
            tx.send_replace(state.state().clone());
        }
        ControlFlow::Continue(())
    });
    tokio::select! {
        // Cancel-safe: waiting for a token takes nothing.
        () = cancel.cancelled() => {}
        // Cancel-safe: what is known was told.
        () = following => {}
    }
}

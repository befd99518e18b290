//! The task that watches this node's pods and publishes their state.

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

/// How long the server keeps one watch open, in seconds. kube considers a watch dead 5 s later, so this limits how long a
/// half-open connection can hide changes.
const WATCH_SECONDS: u32 = 120;

/// Publishes the pods bound to `node_name` until cancelled: first when they were listed or listing failed. Later failures are
/// part of the state and retried with a back-off of up to 30 s, resuming the watch if possible, otherwise with a new listing.
///
/// Until the first listing, the state has the pods in `known`, which a previous daemon knew.
pub async fn run(
    client: Client,
    node_name: String,
    known: Vec<Arc<Pod>>,
    tx: watch::Sender<ApiState>,
    cancel: CancellationToken,
) {
    // The Node authorizer requires exactly this selector.
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
        // Cancel-safe: waits for a token.
        () = cancel.cancelled() => {}
        // Cancel-safe: the known state was published.
        () = following => {}
    }
}

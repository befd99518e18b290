//! The task that watches this node's pods and publishes their state.

use std::ops::ControlFlow;
use std::sync::Arc;

use hostlet_pod::ApiState;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::pods::ApiPods;
use crate::api::{Notification, TypedApi, follow_with_recovery};

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
    let config = watcher::Config::default().fields(&format!("spec.nodeName={node_name}"));
    let mut state = ApiPods::restored(known);
    tx.send_replace(state.state().clone());
    let follow_pods = follow_with_recovery(client, TypedApi::<Pod>::all, config, |update| {
        let changed = match update {
            Notification::Event(event) => state.apply(event, Timestamp::now()),
            Notification::Recovered => state.recovered(),
            Notification::FollowError(error) => {
                let is_new = state.failed(error.message.clone());
                if is_new {
                    tracing::warn!(error = error.message, "cannot watch this node's pods; trying again");
                }
                is_new
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
        () = follow_pods => {}
    }
}

//! Claims from an API server. The Node authorizer permits only `get` of a claim and its volume, so both are read until they are
//! bound, with a back-off, and never again: what a bound pair says does not change.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::watching::publish;
use hostlet_base::{Backoff, BackoffPolicy};
use hostlet_pod::objects::{ClaimError, ClaimRef, ClaimState};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use super::binding::{claimed_by, made_for, volume_of};
use super::read::get;
use crate::api::{TypedApi, pause};

/// Pause between two reads of a claim that cannot be used. Upstream reads up to ten times a second.
const PAUSE: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(10),
    reset_after: Duration::from_secs(60),
};

/// Reads a claim until it is bound or has no receivers.
pub(super) async fn follow_claim(client: Client, claim: ClaimRef, known: Arc<watch::Sender<ClaimState>>) {
    let mut backoff = None;
    loop {
        let now = Instant::now();
        let next = Backoff::next(backoff, &PAUSE, now, now);
        backoff = Some(next);
        tokio::select! {
            // Cancel-safe: only waits.
            () = known.closed() => return,
            // Cancel-safe: only reads.
            bound = bound_volume(&client, &claim) => {
                let state = match bound {
                    Ok(volume) => ClaimState::Bound(Arc::new(volume)),
                    Err(error) => ClaimState::Failed(error),
                };
                let is_bound = matches!(state, ClaimState::Bound(_));
                publish(&known, state);
                if is_bound {
                    return;
                }
            }
        }
        tokio::select! {
            // Cancel-safe: only waits.
            () = known.closed() => return,
            // Cancel-safe: only waits.
            () = tokio::time::sleep(pause(next.delay, Duration::ZERO, rand::random())) => {}
        }
    }
}

async fn bound_volume(client: &Client, reference: &ClaimRef) -> Result<PersistentVolume, ClaimError> {
    let claims = TypedApi::<PersistentVolumeClaim>::namespaced(client.clone(), &reference.namespace);
    let claim = get(&claims, &reference.name).await.map_err(ClaimError::FetchClaim)?;
    if let Some(owner) = &reference.owner {
        made_for(&claim, owner)?;
    }
    let name = volume_of(&claim)?;
    let volumes = TypedApi::<PersistentVolume>::all(client.clone());
    let volume = get(&volumes, name).await;
    let volume = volume.map_err(|error| ClaimError::FetchVolume { name: name.to_owned(), error })?;
    claimed_by(volume, claim.metadata.uid.as_deref().unwrap_or_default())
}

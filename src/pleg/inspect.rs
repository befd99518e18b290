//! Asking the runtime: listings of everything or of one pod, and the inspection of what a listing found. Writes nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures::future::{self, try_join_all};
use futures::stream::{self, StreamExt, TryStreamExt};

use super::PodStatus;
use super::diff::Listing;
use crate::cri::{ContainerStatus, CriError, RuntimeService, SandboxState};
use crate::types::PodRef;

/// How many pods are listed at once when they are listed one by one: enough to keep a runtime busy.
const AT_ONCE: usize = 8;

/// Lists everything, grouped by pod.
pub(super) async fn list_all(runtime: &dyn RuntimeService) -> Result<BTreeMap<PodRef, Listing>, CriError> {
    let (sandboxes, containers) =
        tokio::try_join!(runtime.list_sandboxes(None), runtime.list_containers(None))?;
    let mut pods: BTreeMap<PodRef, Listing> = BTreeMap::new();
    for sandbox in sandboxes {
        pods.entry(sandbox.pod.clone()).or_default().sandboxes.push(sandbox);
    }
    for container in containers {
        pods.entry(container.pod.clone()).or_default().containers.push(container);
    }
    Ok(pods)
}

/// Lists everything that belongs to a pod that the runtime names, or that is `known`, pod by pod.
pub(super) async fn list_pod_by_pod(
    runtime: &dyn RuntimeService,
    known: Vec<PodRef>,
) -> Result<BTreeMap<PodRef, Listing>, CriError> {
    let mut pods = runtime.list_pods().await?;
    pods.extend(known);
    let listings = stream::iter(pods).map(|pod| async move {
        let listing = list_pod(runtime, &pod).await?;
        Ok((pod, listing))
    });
    listings
        .buffer_unordered(AT_ONCE)
        .try_filter(|(_, listing)| future::ready(!listing.is_empty()))
        .try_collect()
        .await
}

/// Lists one pod.
pub(super) async fn list_pod(runtime: &dyn RuntimeService, pod: &PodRef) -> Result<Listing, CriError> {
    let (sandboxes, containers) =
        tokio::try_join!(runtime.list_sandboxes(Some(&pod.uid)), runtime.list_containers(Some(&pod.uid)))?;
    Ok(Listing { sandboxes, containers })
}

/// Inspects every sandbox and container of a listing. An object that vanished between the listing and its inspection is
/// left out.
pub(super) async fn inspect(
    runtime: &dyn RuntimeService,
    pod: &PodRef,
    listing: &Listing,
) -> Result<PodStatus, CriError> {
    let sandboxes = try_join_all(
        listing.sandboxes.iter().map(|s| async { present(runtime.sandbox_status(&s.id).await) }),
    );
    let containers = try_join_all(listing.containers.iter().map(|c| async {
        let status = present(runtime.container_status(&c.id).await)?;
        Ok(status.map(|s| ContainerStatus { sandbox: Some(c.sandbox.clone()), ..s }))
    }));
    let (sandboxes, containers) = tokio::try_join!(sandboxes, containers)?;
    let mut sandboxes: Vec<_> = sandboxes.into_iter().flatten().collect();
    let mut containers: Vec<_> = containers.into_iter().flatten().collect();
    sandboxes.sort_by_key(|s| Reverse((s.attempt, s.created_at)));
    containers.sort_by_key(|c| Reverse((c.created_at, c.attempt)));
    let ips = match sandboxes.first() {
        Some(newest) if newest.state == SandboxState::Ready => newest.ips.clone(),
        _ => Vec::new(),
    };
    Ok(PodStatus { pod: pod.clone(), ips, sandboxes, containers })
}

/// Takes out of a listing what vanished before its inspection. What is told stays equal to what is in the cache, and
/// should the object be listed again, that is a change, and it is inspected again.
pub(super) fn keep_inspected(listing: &mut Listing, status: &PodStatus) {
    listing.sandboxes.retain(|listed| status.sandboxes.iter().any(|s| s.id == listed.id));
    listing.containers.retain(|listed| status.containers.iter().any(|c| c.id == listed.id));
}

fn present<T>(result: Result<T, CriError>) -> Result<Option<T>, CriError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps the addresses a pod had: once its network is torn down the runtime no longer tells them, but the API expects
/// them on the finished pod.
pub(super) fn keep_ips(new: &mut PodStatus, old: Option<&PodStatus>) {
    let has_ready_sandbox = new.sandboxes.iter().any(|s| s.state == SandboxState::Ready);
    if let Some(old) = old
        && new.ips.is_empty()
        && !has_ready_sandbox
    {
        new.ips.clone_from(&old.ips);
    }
}

//! Queries to the runtime: listings of everything or of one pod, and the inspection of listed objects. Changes no state.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use hostlet_base::{PodRef, PodUid};
use hostlet_runtime::cri::{
    Container, ContainerStatus, CriError, RuntimeService, Sandbox, SandboxState, SandboxStatus,
};

use super::PodStatus;
use super::diff::Listing;

/// Concurrent listings when pods are listed one by one: enough to keep a runtime busy.
const AT_ONCE: usize = 8;

/// The runtime's objects by pod. The UID identifies the pod; its name comes from its newest sandbox, because a manifest
/// that sets its own UID may be renamed.
pub(super) type Pods = BTreeMap<PodUid, (PodRef, Listing)>;

/// All objects of the runtime, as listed.
#[derive(Clone, Debug)]
pub(super) struct Everything {
    pub(super) sandboxes: Arc<[Sandbox]>,
    pub(super) containers: Arc<[Container]>,
}

impl Everything {
    /// Whether these are the very lists of `other`: nothing changed between them. Two equal ones need not be the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.sandboxes, &other.sandboxes) && Arc::ptr_eq(&self.containers, &other.containers)
    }

    pub(super) fn by_pod(&self) -> Pods {
        let mut pods = Pods::new();
        for sandbox in &*self.sandboxes {
            listing_of(&mut pods, &sandbox.pod).sandboxes.push(sandbox.clone());
        }
        for container in &*self.containers {
            listing_of(&mut pods, &container.pod).containers.push(container.clone());
        }
        for (pod, listing) in pods.values_mut() {
            let newest = listing.sandboxes.iter().max_by_key(|sandbox| (sandbox.attempt, sandbox.created_at));
            if let Some(newest) = newest {
                pod.clone_from(&newest.pod);
            }
        }
        pods
    }
}

fn listing_of<'p>(pods: &'p mut Pods, pod: &PodRef) -> &'p mut Listing {
    &mut pods.entry(pod.uid.clone()).or_insert_with(|| (pod.clone(), Listing::default())).1
}

/// Lists everything.
pub(super) async fn list_all(runtime: &dyn RuntimeService) -> Result<Everything, CriError> {
    let (sandboxes, containers) =
        tokio::try_join!(runtime.list_sandboxes(None), runtime.list_containers(None))?;
    Ok(Everything { sandboxes, containers })
}

/// Lists, pod by pod, everything of the pods that the runtime names or that are in `known`.
pub(super) async fn list_pod_by_pod(
    runtime: &dyn RuntimeService,
    known: Vec<PodRef>,
) -> Result<Everything, CriError> {
    let named_there = runtime.list_pods().await?.into_iter();
    let pods: BTreeMap<PodUid, PodRef> = named_there.chain(known).map(|pod| (pod.uid.clone(), pod)).collect();
    let listings = stream::iter(pods.into_values()).map(|pod| async move { list_pod(runtime, &pod).await });
    let listings: Vec<Listing> = listings.buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(Everything {
        sandboxes: listings.iter().flat_map(|listing| listing.sandboxes.iter().cloned()).collect(),
        containers: listings.iter().flat_map(|listing| listing.containers.iter().cloned()).collect(),
    })
}

pub(super) async fn list_pod(runtime: &dyn RuntimeService, pod: &PodRef) -> Result<Listing, CriError> {
    let (sandboxes, containers) =
        tokio::try_join!(runtime.list_sandboxes(Some(&pod.uid)), runtime.list_containers(Some(&pod.uid)))?;
    Ok(Listing { sandboxes: sandboxes.to_vec(), containers: containers.to_vec() })
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
    // By attempt first: after the clock was set back, a newer container looks older.
    containers.sort_by_key(|c| Reverse((c.attempt, c.created_at)));
    let ips = match sandboxes.first() {
        Some(newest) if newest.state == SandboxState::Ready => newest.ips.clone(),
        _ => Vec::new(),
    };
    Ok(PodStatus { pod: pod.clone(), ips, sandboxes, containers })
}

/// The status of a pod that cannot be inspected, from its listing alone: which objects exist and whether they run.
pub(super) fn as_listed(pod: &PodRef, listing: &Listing) -> PodStatus {
    let sandboxes = listing.sandboxes.iter().map(SandboxStatus::as_listed);
    let containers = listing.containers.iter().map(ContainerStatus::as_listed);
    let (mut sandboxes, mut containers): (Vec<_>, Vec<_>) = (sandboxes.collect(), containers.collect());
    sandboxes.sort_by_key(|s| Reverse((s.attempt, s.created_at)));
    containers.sort_by_key(|c| Reverse((c.attempt, c.created_at)));
    PodStatus { pod: pod.clone(), ips: Vec::new(), sandboxes, containers }
}

/// Removes from a listing what vanished before its inspection, so that the reported events match the cache. If the object is
/// listed again, that is a change, and it is inspected again.
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

/// Keeps the pod's earlier addresses: once its network is torn down the runtime no longer reports them, but the API
/// expects them on a finished pod.
pub(super) fn keep_ips(new: &mut PodStatus, old: Option<&PodStatus>) {
    let has_ready_sandbox = new.sandboxes.iter().any(|s| s.state == SandboxState::Ready);
    if let Some(old) = old
        && new.ips.is_empty()
        && !has_ready_sandbox
    {
        new.ips.clone_from(&old.ips);
    }
}

//! The service `v1alpha1.Pods`.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use hostlet_base::PodUid;
use hostlet_observe::status::{DirectoryChanges, PodDirectory};
use hostlet_proto::pods_api::pods_server::Pods;
use hostlet_proto::pods_api::{
    GetPodRequest, GetPodResponse, ListPodsRequest, ListPodsResponse, WatchPodsEvent, WatchPodsRequest,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::encode;
use super::metrics::{ApiMetrics, Call};
use super::watched::{Watched, synced};
use crate::grpc::RateLimit;

/// Whether all sources of pods were read.
pub type Readiness = Arc<dyn Fn() -> bool + Send + Sync>;

/// The service.
#[derive(Clone)]
pub(super) struct PodsService {
    pub(super) pods: PodDirectory,
    pub(super) is_ready: Readiness,
    pub(super) limit: RateLimit,
    pub(super) metrics: ApiMetrics,
}

/// A client that watches.
struct Watcher {
    pods: PodDirectory,
    changes: DirectoryChanges,
    watched: Watched,
    next: VecDeque<WatchPodsEvent>,
}

impl PodsService {
    fn check_ready(&self) -> Result<(), Status> {
        match (self.is_ready)() {
            true => Ok(()),
            false => Err(Status::failed_precondition("Kubelet is initializing")),
        }
    }

    fn list(&self) -> Result<ListPodsResponse, Status> {
        self.check_ready()?;
        let mut pods: Vec<_> = self.pods.all().into_iter().collect();
        pods.sort_by(|(a, _), (b, _)| a.cmp(b));
        let pods = pods.iter().map(|(_, entry)| encode::pod(&entry.with_status())).collect();
        Ok(ListPodsResponse { pods })
    }

    fn get(&self, uid: &str) -> Result<GetPodResponse, Status> {
        self.check_ready()?;
        let entry = self.pods.all().remove(&PodUid::from(uid));
        let entry = entry.ok_or_else(|| Status::not_found(format!("pod with UID {uid} not found")))?;
        Ok(GetPodResponse { pod: encode::pod(&entry.with_status()) })
    }
}

impl Watcher {
    fn new(pods: PodDirectory) -> Self {
        let mut changes = pods.changes();
        changes.mark_seen();
        let mut watched = Watched::default();
        let mut next: VecDeque<_> = watched.events(&pods.all()).into();
        next.push_back(synced());
        Self { pods, changes, watched, next }
    }

    /// The next event; `None` once the daemon stops. A slow client is sent the newest state of each pod.
    async fn next(&mut self) -> Option<WatchPodsEvent> {
        loop {
            if let Some(event) = self.next.pop_front() {
                return Some(event);
            }
            self.changes.changed().await.ok()?;
            self.changes.mark_seen();
            self.next = self.watched.events(&self.pods.all()).into();
        }
    }
}

#[async_trait]
impl Pods for PodsService {
    async fn watch_pods(
        &self,
        _: Request<WatchPodsRequest>,
    ) -> Result<Response<BoxStream<WatchPodsEvent>>, Status> {
        self.metrics.ended(Call::Watch, self.check_ready())?;
        let watcher = Watcher::new(self.pods.clone());
        let events = stream::unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((Ok(event), watcher))
        });
        Ok(Response::new(events.boxed()))
    }

    async fn list_pods(&self, _: Request<ListPodsRequest>) -> Result<Response<ListPodsResponse>, Status> {
        self.limit.check()?;
        self.metrics.ended(Call::List, self.list()).map(Response::new)
    }

    async fn get_pod(&self, request: Request<GetPodRequest>) -> Result<Response<GetPodResponse>, Status> {
        self.limit.check()?;
        self.metrics.ended(Call::Get, self.get(&request.into_inner().pod_uid)).map(Response::new)
    }
}

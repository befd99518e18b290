//! The service `v1alpha1.PodResourcesLister`, which old agents call.

use async_trait::async_trait;
use hostlet_proto::pod_resources_alpha::pod_resources_lister_server::PodResourcesLister;
use hostlet_proto::pod_resources_alpha::{ListPodResourcesRequest, ListPodResourcesResponse};
use tonic::{Request, Response, Status};

use super::service::Lister;
use super::wire;

/// The service.
#[derive(Clone)]
pub(super) struct OldLister(pub(super) Lister);

#[async_trait]
impl PodResourcesLister for OldLister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let Lister { source, limit, metrics } = &self.0;
        limit.check()?;
        metrics.listed("v1alpha1");
        // Also those that have terminated, as upstream.
        let pod_resources = source.pods().iter().map(|pod| wire::old_pod(pod, &**source)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }
}

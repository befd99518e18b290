//! The service `v1.PodResourcesLister`.

use std::sync::Arc;

use async_trait::async_trait;
use hostlet_proto::pod_resources::pod_resources_lister_server::PodResourcesLister;
use hostlet_proto::pod_resources::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, GetPodResourcesRequest,
    GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
};
use tonic::{Request, Response, Status};

use super::metrics::ApiMetrics;
use super::source::PodResourcesSource;
use super::wire;
use crate::grpc::RateLimit;

/// The service.
#[derive(Clone)]
pub(super) struct Lister {
    pub(super) source: Arc<dyn PodResourcesSource>,
    pub(super) limit: RateLimit,
    pub(super) metrics: ApiMetrics,
}

#[async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.limit.check()?;
        self.metrics.listed("v1");
        let pods = self.source.active_pods();
        let pod_resources = pods.iter().map(|pod| wire::pod(pod, &*self.source)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.limit.check()?;
        self.metrics.got_allocatable();
        Ok(Response::new(wire::allocatable(self.source.allocatable())))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.limit.check()?;
        let GetPodResourcesRequest { pod_name: name, pod_namespace: namespace } = request.into_inner();
        let found = self.source.pod(&namespace, &name);
        self.metrics.got(found.is_some());
        // The code of an error of Go without another.
        let pod =
            found.ok_or_else(|| Status::unknown(format!("pod {name} in namespace {namespace} not found")))?;
        let pod_resources = Some(wire::pod(&pod, &*self.source));
        Ok(Response::new(GetPodResourcesResponse { pod_resources }))
    }
}

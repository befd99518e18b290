//! Which version of a resource of `certificates.k8s.io` the API server has: `v1` since Kubernetes 1.37, `v1beta1` before. What a node
//! reads and writes is the same in both, so the types of `v1` serve for each. Asks once.

use hostlet_pod::objects::ObjectError;
use k8s_openapi::api::certificates::v1::{
    ClusterTrustBundle, ClusterTrustBundleSpec, PodCertificateRequest, PodCertificateRequestSpec,
    PodCertificateRequestStatus,
};
use kube::Client;
use kube::core::{ApiResource, NotUsed, Object};
use parking_lot::Mutex;

use super::read;

/// The group.
const GROUP: &str = "certificates.k8s.io";
/// Its versions, the best first.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// A ClusterTrustBundle of any version.
pub(super) type TrustBundle = Object<ClusterTrustBundleSpec, NotUsed>;

/// A PodCertificateRequest of any version.
pub(super) type CertificateRequest = Object<PodCertificateRequestSpec, PodCertificateRequestStatus>;

/// A resource of the group, in the version that the API server has.
pub(super) struct CertificatesResource {
    /// The resource in `v1`.
    resource: ApiResource,
    /// What a server lacks that has no version of it.
    requirement: &'static str,
    served: Mutex<Option<ApiResource>>,
}

impl CertificatesResource {
    pub(super) fn trust_bundles() -> Self {
        Self::new(
            ApiResource::erase::<ClusterTrustBundle>(&()),
            "the API server has no ClusterTrustBundles: they need Kubernetes 1.37, or 1.33 with the feature gate ClusterTrustBundle \
             and --runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
        )
    }

    pub(super) fn certificate_requests() -> Self {
        Self::new(
            ApiResource::erase::<PodCertificateRequest>(&()),
            "the API server has no PodCertificateRequests: they need Kubernetes 1.37, or 1.36 with the feature gate \
             PodCertificateRequest and --runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
        )
    }

    fn new(resource: ApiResource, requirement: &'static str) -> Self {
        Self { resource, requirement, served: Mutex::default() }
    }

    /// The resource in the best version that the server has. Has its own deadline.
    pub(super) async fn served(&self, client: &Client) -> Result<ApiResource, ObjectError> {
        let known = self.served.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        for version in VERSIONS {
            let api_version = format!("{GROUP}/{version}");
            let listed = read::request(|| client.list_api_group_resources(&api_version)).await;
            let resources = match listed {
                Ok(listed) => listed.resources,
                Err(ObjectError::NotFound(_)) => continue,
                Err(error @ (ObjectError::Forbidden(_) | ObjectError::Unavailable(_))) => return Err(error),
            };
            if resources.iter().any(|resource| resource.name == self.resource.plural) {
                let version = version.to_owned();
                let served = ApiResource { version, api_version, ..self.resource.clone() };
                *self.served.lock() = Some(served.clone());
                return Ok(served);
            }
        }
        Err(ObjectError::Unavailable(self.requirement.to_owned()))
    }

    /// The server does not have the known version any more, as after an upgrade or a downgrade.
    pub(super) fn forget(&self) {
        *self.served.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use hostlet_base::WallClock;

    use super::*;
    use crate::api::fake::{ApiFault, ApiRule, FakeApi};

    #[tokio::test(start_paused = true)]
    async fn the_best_version_of_the_server_is_used_until_it_is_gone() {
        let api = FakeApi::new(WallClock::system());
        let (client, bundles) = (api.client(), CertificatesResource::trust_bundles());
        let version = async || bundles.served(&client).await.map(|resource| resource.api_version);
        assert_eq!(version().await.unwrap(), "certificates.k8s.io/v1");
        assert_eq!(version().await.unwrap(), "certificates.k8s.io/v1");
        assert_eq!(api.requests().len(), 1);
        api.serve_certificates(&["v1beta1"]);
        bundles.forget();
        assert_eq!(version().await.unwrap(), "certificates.k8s.io/v1beta1");
        api.serve_certificates(&[]);
        bundles.forget();
        let Err(ObjectError::Unavailable(error)) = version().await else { panic!("there is none") };
        assert!(error.starts_with("the API server has no ClusterTrustBundles: they need"), "{error}");
        api.fail(ApiRule::once("GET", "/apis/certificates.k8s.io/v1", ApiFault::Reset));
        assert!(
            matches!(version().await, Err(ObjectError::Unavailable(error)) if !error.contains("they need"))
        );
    }
}

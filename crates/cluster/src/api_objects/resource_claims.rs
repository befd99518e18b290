//! ResourceClaims from an API server. The Node authorizer permits only `get` of a claim that a pod of this node refers to, so each is read
//! when it is needed.

use async_trait::async_trait;
use hostlet_dra::ClaimSource;
use hostlet_pod::objects::ObjectError;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Client;

use super::read::get;
use crate::api::TypedApi;

/// Reads ResourceClaims.
#[derive(Clone)]
pub struct ApiClaims {
    client: Client,
}

impl ApiClaims {
    /// `client` is for requests about objects of pods.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl ClaimSource for ApiClaims {
    async fn claim(&self, namespace: &str, name: &str) -> Result<ResourceClaim, ObjectError> {
        get(&TypedApi::<ResourceClaim>::namespaced(self.client.clone(), namespace), name).await
    }
}

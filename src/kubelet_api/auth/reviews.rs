//! Questions to the API server: whose token this is, and what a user may do.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{ObjectMeta, PostParams};

use super::User;
use crate::api::{Objects, Wire};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The request failed.
    #[error("the API server did not answer the {0}")]
    Request(&'static str, #[source] Box<kube::Error>),
    /// The answer has no result.
    #[error("the API server could not review it: {0}")]
    Failed(String),
}

/// Answers whose token this is, and what a user may do.
#[async_trait]
pub trait Reviews: Send + Sync {
    /// The user of a bearer token; `None` if it is of nobody.
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError>;

    /// Whether the user may use this verb on this subresource of the node.
    async fn may(&self, user: &User, verb: &str, node: &str, subresource: &str) -> Result<bool, ReviewError>;
}

/// The API server's answers.
pub struct ApiReviews {
    tokens: Objects<TokenReview>,
    accesses: Objects<SubjectAccessReview>,
}

impl ApiReviews {
    /// Asks with this client.
    pub fn new(client: Client) -> Self {
        Self { tokens: Objects::all(client.clone()), accesses: Objects::all(client) }
    }
}

#[async_trait]
impl Reviews for ApiReviews {
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..Default::default() };
        let review = TokenReview { metadata: ObjectMeta::default(), spec, status: None };
        let sent = self.tokens.create(&PostParams::default(), &Wire(review)).await;
        let Wire(review) = sent.map_err(|error| ReviewError::Request("TokenReview", Box::new(error)))?;
        let status = review.status.unwrap_or_default();
        match (status.authenticated, status.error.filter(|error| !error.is_empty())) {
            (Some(true), _) => Ok(status.user.map(User::from)),
            (_, Some(error)) => Err(ReviewError::Failed(error)),
            (_, None) => Ok(None),
        }
    }

    async fn may(&self, user: &User, verb: &str, node: &str, subresource: &str) -> Result<bool, ReviewError> {
        let attributes = ResourceAttributes {
            name: Some(node.to_owned()),
            resource: Some("nodes".to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some(verb.to_owned()),
            version: Some("v1".to_owned()),
            ..Default::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: (!user.uid.is_empty()).then(|| user.uid.clone()),
            groups: Some(user.groups.clone()),
            extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
            resource_attributes: Some(attributes),
            ..Default::default()
        };
        let review = SubjectAccessReview { metadata: ObjectMeta::default(), spec, status: None };
        let sent = self.accesses.create(&PostParams::default(), &Wire(review)).await;
        let Wire(review) =
            sent.map_err(|error| ReviewError::Request("SubjectAccessReview", Box::new(error)))?;
        Ok(review.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

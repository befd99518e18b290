//! Questions to the API server: whose token this is, and what a user may do.

use std::error::Error;
use std::iter::successors;

use async_trait::async_trait;
use hostlet_cluster::api::{TypedApi, Wire};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{ObjectMeta, PostParams};
use kube::core::response::StatusDetails;

use super::User;

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

impl ReviewError {
    /// Whether the same question may have an answer in a moment (upstream's `DefaultShouldRetry`): the server was overloaded or failed, it
    /// said when to ask again, or the connection was lost on the way. Any other answer stays the same, and a server that cannot be
    /// reached is not waited for.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Request(_, error) => match &**error {
                kube::Error::Api(status) => {
                    let says_when = |details: &StatusDetails| details.retry_after_seconds > 0;
                    matches!(status.code, 429 | 500 | 504) || status.details.as_ref().is_some_and(says_when)
                }
                error => {
                    let mut causes =
                        successors(Some(error as &(dyn Error + 'static)), |error| (**error).source());
                    causes.any(|cause| cause.is::<hyper::Error>())
                }
            },
            Self::Failed(_) => false,
        }
    }
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
    tokens: TypedApi<TokenReview>,
    accesses: TypedApi<SubjectAccessReview>,
}

impl ApiReviews {
    /// Asks with this client.
    pub fn new(client: Client) -> Self {
        Self { tokens: TypedApi::all(client.clone()), accesses: TypedApi::all(client) }
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

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::Empty;
    use hyper::body::Bytes;
    use hyper_util::rt::TokioIo;
    use kube::core::Status;

    use super::*;

    fn failed(error: kube::Error) -> bool {
        ReviewError::Request("TokenReview", Box::new(error)).is_temporary()
    }

    #[test]
    fn only_what_may_pass_is_temporary() {
        let status = |code| Status::failure("no", "Unlisted").with_code(code);
        for (code, expected) in [
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (422, false),
            (429, true),
            (500, true),
            (503, false),
            (504, true),
        ] {
            assert_eq!(failed(kube::Error::Api(status(code).boxed())), expected, "{code}");
        }
        let mut later = status(503);
        later.details = Some(serde_json::from_value(serde_json::json!({"retryAfterSeconds": 1})).unwrap());
        assert!(failed(kube::Error::Api(later.boxed())));
        assert!(!failed(kube::Error::Service("unreachable".into())));
        assert!(!ReviewError::Failed("no such webhook".to_owned()).is_temporary());
    }

    #[tokio::test]
    async fn a_lost_connection_is_temporary() {
        let (near, far) = tokio::io::duplex(1 << 10);
        drop(far);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
        let (sent, _) = tokio::join!(sender.send_request(Request::new(Empty::<Bytes>::new())), connection);
        assert!(failed(kube::Error::Service(sent.unwrap_err().into())));
    }
}

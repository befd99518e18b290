//! Lets a request pass if its sender is known and may do what it does. The texts and status codes are upstream's.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hostlet_base::error_chain;
use http::StatusCode;
use http::request::Parts;

use super::answers::text;
use super::auth::{
    AuthenticationError, Authenticator, AuthorizationError, Authorizer, StreamingVerbs, attributes,
};
use super::connection_use::Refused;
use super::listen::{Client, ClientCertificates};

/// Who may do what.
pub struct Guard {
    /// Who sends a request.
    pub authenticator: Authenticator,
    /// What they may do.
    pub authorizer: Authorizer,
    /// Which verb a stream needs.
    pub streaming: StreamingVerbs,
}

/// Why a request does not pass.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("Unauthorized")]
    Unauthenticated(#[source] AuthenticationError),
    #[error(transparent)]
    Unauthorized(#[from] AuthorizationError),
}

impl Guard {
    async fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let certificates = request.extensions.get::<ClientCertificates>().cloned().unwrap_or_default();
        let client = request.extensions.get::<Client>();
        let source = client.map(|client| client.source.to_string()).unwrap_or_default();
        let user = self.authenticator.user(&source, &certificates.0, &request.headers).await;
        let user = user.map_err(Refusal::Unauthenticated)?;
        let wanted = attributes(&request.method, request.uri.path(), self.streaming);
        self.authorizer.check(&user, &wanted).await?;
        // Where anybody is let in, it says nothing.
        if user.has_credentials() {
            client.into_iter().for_each(|client| client.let_in.set());
        }
        Ok(())
    }
}

/// Answers a request only if it passes.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    // The body is not `Sync`.
    let (head, body) = request.into_parts();
    match guard.check(&head).await {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Unauthenticated(error) => {
                // Without credentials, as everybody in the network can send it, it is not worth a line.
                match error {
                    AuthenticationError::None => {}
                    AuthenticationError::Certificate(_)
                    | AuthenticationError::Token
                    | AuthenticationError::Protocol(_)
                    | AuthenticationError::Review(_) => {
                        tracing::info!(
                            error = error_chain(error),
                            "a request to the node's API is not authenticated"
                        );
                    }
                }
                StatusCode::UNAUTHORIZED
            }
            Self::Unauthorized(error @ AuthorizationError::Forbidden { .. }) => {
                tracing::debug!(
                    error = error.to_string().trim_end(),
                    "a request to the node's API is forbidden"
                );
                StatusCode::FORBIDDEN
            }
            Self::Unauthorized(error @ AuthorizationError::Review { .. }) => {
                tracing::warn!(
                    error = error_chain(error),
                    "a request to the node's API cannot be authorized"
                );
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (Extension(Refused), text(status, self.to_string())).into_response()
    }
}

//! Authentication and authorization of the node's API (Kubernetes docs, "Kubelet authentication/authorization"; KEP-2862). Knows no answer.

mod access;
mod answer_cache;
mod attributes;
mod authenticator;
mod authorizer;
mod reviews;
#[cfg(test)]
pub(in crate::node_api) mod testing;
#[cfg(test)]
mod tests;
mod user;
mod websocket_token;

use attributes::Attributes;
pub use attributes::StreamingVerbs;
pub(super) use attributes::attributes;
pub use authenticator::{AuthenticationError, Authenticator, AuthenticatorSettings};
pub use authorizer::{AuthorizationError, Authorizer};
pub use reviews::{ApiReviews, ReviewError, Reviews};
pub use user::User;
pub(super) use websocket_token::remove_tokens;

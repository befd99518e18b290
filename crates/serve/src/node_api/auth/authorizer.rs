//! Whether a user may do what a request needs.

use std::sync::Arc;
use std::time::Duration;

use super::access::with_retries;
use super::answer_cache::AnswerCache;
use super::{Attributes, ReviewError, Reviews, User};

/// Why a request is not carried out. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// The user may not.
    #[error("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])\n")]
    Forbidden {
        /// The user's name.
        user: String,
        /// The verb of the access review, e.g. `get`.
        verb: &'static str,
        /// The subresources, between blanks.
        subresources: String,
    },
    /// The API server could not be asked.
    #[error("Authorization error (user={user}, verb={verb}, resource=nodes, subresource={subresource})")]
    Review {
        /// The user's name.
        user: String,
        /// The verb of the access review, e.g. `get`.
        verb: &'static str,
        /// The subresource of `nodes` whose review failed, e.g. `proxy`.
        subresource: &'static str,
        /// Why.
        source: Arc<ReviewError>,
    },
}

/// A user, a verb and a subresource.
type Question = (User, &'static str, &'static str);

/// Authorizes requests.
pub enum Authorizer {
    /// Everybody may do everything (`authorization.mode: AlwaysAllow`).
    AlwaysAllow,
    /// The API server decides (`authorization.mode: Webhook`).
    Webhook(Box<Webhook>),
}

/// The API server's decisions.
pub struct Webhook {
    reviews: Arc<dyn Reviews>,
    node: String,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    decisions: AnswerCache<Question, bool>,
}

impl Authorizer {
    /// Asks about the node of this name, and caches decisions for `allowed_ttl` and `denied_ttl`
    /// (`authorization.webhook.cacheAuthorizedTTL`, `cacheUnauthorizedTTL`).
    pub fn webhook(
        reviews: Arc<dyn Reviews>,
        node: String,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Self {
        let decisions = AnswerCache::new(|is_allowed| *is_allowed);
        Self::Webhook(Box::new(Webhook { reviews, node, allowed_ttl, denied_ttl, decisions }))
    }

    /// Returns if the user may: on any of the subresources.
    pub(in crate::node_api) async fn check(
        &self,
        user: &User,
        wanted: &Attributes,
    ) -> Result<(), AuthorizationError> {
        let Self::Webhook(webhook) = self else { return Ok(()) };
        for subresource in wanted.subresources {
            if webhook.decide(user, wanted.verb, subresource).await? {
                return Ok(());
            }
        }
        Err(AuthorizationError::Forbidden {
            user: user.name.clone(),
            verb: wanted.verb,
            subresources: wanted.subresources.join(" "),
        })
    }
}

impl Webhook {
    async fn decide(
        &self,
        user: &User,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, AuthorizationError> {
        let ask = async {
            let may = || self.reviews.may(user, verb, &self.node, subresource);
            let is_allowed = with_retries(may).await?;
            Ok((is_allowed, if is_allowed { self.allowed_ttl } else { self.denied_ttl }))
        };
        let decision = self.decisions.get((user.clone(), verb, subresource), ask).await;
        decision.map_err(|source| {
            let user = user.name.clone();
            AuthorizationError::Review { user, verb, subresource, source }
        })
    }
}

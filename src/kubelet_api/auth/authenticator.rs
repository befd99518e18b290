//! Who sends a request: by client certificate, then by bearer token, then anybody if that is permitted.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::access::with_retries;
use super::kept::Kept;
use super::{ReviewError, Reviews, User};
use crate::tls::ClientAuthorities;

/// Why nobody is known to have sent a request.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// There are no credentials, and they are required.
    #[error("there are no credentials")]
    None,
    /// The client certificate is not of the configured authorities.
    #[error("the client certificate is not accepted")]
    Certificate(#[source] crate::tls::TlsError),
    /// The API server knows no such token.
    #[error("the bearer token is of nobody")]
    Token,
    /// The API server could not be asked for the token.
    #[error("the bearer token cannot be reviewed")]
    Review(#[source] Arc<ReviewError>),
}

/// A token's user, by the token's digest, so that no token stays in memory.
type Tokens = Kept<[u8; 32], Option<User>>;

/// Authenticates requests.
pub struct Authenticator {
    authorities: watch::Receiver<Option<Arc<ClientAuthorities>>>,
    reviews: Option<(Arc<dyn Reviews>, Duration)>,
    tokens: Tokens,
    is_anonymous_permitted: bool,
}

impl Authenticator {
    /// Accepts client certificates of these authorities (`authentication.x509.clientCAFile`), and nobody else.
    pub fn new(authorities: watch::Receiver<Option<Arc<ClientAuthorities>>>) -> Self {
        Self { authorities, reviews: None, tokens: Tokens::default(), is_anonymous_permitted: false }
    }

    /// Also accepts bearer tokens that the API server knows. Its answers are kept for `ttl` (`authentication.webhook`).
    #[must_use]
    pub fn with_tokens(self, reviews: Arc<dyn Reviews>, ttl: Duration) -> Self {
        Self { reviews: Some((reviews, ttl)), ..self }
    }

    /// Also accepts requests without credentials (`authentication.anonymous.enabled`).
    #[must_use]
    pub fn with_anonymous(self) -> Self {
        Self { is_anonymous_permitted: true, ..self }
    }

    /// Who sent a request with these headers over a connection with this client certificate and its intermediates. Credentials that are
    /// not accepted are an error, even if anonymous requests are permitted.
    pub async fn user(
        &self,
        certificates: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<User, AuthenticationError> {
        let authorities = self.authorities.borrow().clone();
        let mut problem = None;
        if let (Some(authorities), [certificate, intermediates @ ..]) = (authorities, certificates) {
            match authorities.verify(certificate, intermediates) {
                Ok(subject) => {
                    let user = User {
                        name: subject.common_name,
                        uid: String::new(),
                        groups: subject.organizations,
                        extra: [(
                            "authentication.kubernetes.io/credential-id".to_owned(),
                            vec![format!("X509SHA256={}", hex::encode(Sha256::digest(certificate)))],
                        )]
                        .into(),
                    };
                    return Ok(user.authenticated());
                }
                Err(error) => problem = Some(AuthenticationError::Certificate(error)),
            }
        }
        if let (Some((reviews, ttl)), Some(token)) = (&self.reviews, bearer_token(headers)) {
            let digest = Sha256::digest(token).into();
            let ask = async {
                let user = with_retries(|| reviews.user_of(token)).await?;
                Ok((user, *ttl))
            };
            match self.tokens.get(digest, ask).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => problem = Some(AuthenticationError::Token),
                Err(error) => problem = Some(AuthenticationError::Review(error)),
            }
        }
        match problem {
            Some(problem) => Err(problem),
            None if self.is_anonymous_permitted => Ok(User::anonymous()),
            None => Err(AuthenticationError::None),
        }
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750).
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

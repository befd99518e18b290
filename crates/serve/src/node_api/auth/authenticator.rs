//! Who sends a request: by client certificate, then by bearer token, then anybody if that is permitted.

use std::sync::Arc;
use std::time::Duration;

use hostlet_host::Places;
use hostlet_net::tls::ClientAuthorities;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::access::with_retries;
use super::answer_cache::AnswerCache;
use super::websocket_token::websocket_token;
use super::{ReviewError, Reviews, User};

/// Why nobody is known to have sent a request.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// There are no credentials, and they are required.
    #[error("there are no credentials")]
    None,
    /// The client certificate is not of the configured authorities.
    #[error("the client certificate is not accepted")]
    Certificate(#[source] hostlet_net::tls::TlsError),
    /// The API server knows no such token.
    #[error("the bearer token is of nobody")]
    Token,
    /// The token in `Sec-WebSocket-Protocol` cannot be read.
    #[error("the bearer token of a WebSocket cannot be read: {0}")]
    Protocol(&'static str),
    /// The API server could not be asked for the token.
    #[error("the bearer token cannot be reviewed")]
    Review(#[source] Arc<ReviewError>),
}

/// A token's user, by the token's digest, so that no token stays in memory.
type Tokens = AnswerCache<[u8; 32], Option<User>>;

/// Which credentials are accepted.
pub struct AuthenticatorSettings {
    /// Client certificates of these authorities (`authentication.x509.clientCAFile`).
    pub authorities: watch::Receiver<Option<Arc<ClientAuthorities>>>,
    /// Bearer tokens that the API server knows, and how long its answers are cached (`authentication.webhook`); `None` for no tokens.
    pub tokens: Option<(Arc<dyn Reviews>, Duration)>,
    /// Whether requests without credentials are accepted, too (`authentication.anonymous.enabled`).
    pub is_anonymous_permitted: bool,
}

/// Authenticates requests.
pub struct Authenticator {
    settings: AuthenticatorSettings,
    tokens: Tokens,
    /// For questions about tokens, by who sends them: whoever makes up tokens waits for the answers alone.
    questions: Places,
}

impl Authenticator {
    /// Has asked about no token yet.
    pub fn new(settings: AuthenticatorSettings) -> Self {
        Self { settings, tokens: Tokens::new(Option::is_some), questions: Places::default() }
    }

    /// Who sent a request with these headers from `source` over a connection with this client certificate and its intermediates.
    /// Credentials that are not accepted are an error, even if anonymous requests are permitted.
    pub async fn user(
        &self,
        source: &str,
        certificates: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<User, AuthenticationError> {
        let authorities = self.settings.authorities.borrow().clone();
        let mut problem = None;
        if let (Some(authorities), [certificate, intermediates @ ..]) = (authorities, certificates) {
            match authorities.verify(certificate, intermediates) {
                // A certificate without a name is of nobody, as upstream.
                Ok(subject) if subject.common_name.is_empty() => {}
                Ok(subject) => {
                    let user = User {
                        name: subject.common_name,
                        uid: subject.uid,
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
        if let Some((reviews, ttl)) = &self.settings.tokens {
            let header = bearer_token(headers).map(|token| Ok(token.to_owned()));
            for token in [header, websocket_token(headers).transpose()].into_iter().flatten() {
                let user = match token {
                    Ok(token) => self.user_of(source, &token, &**reviews, *ttl).await,
                    Err(reason) => Err(AuthenticationError::Protocol(reason)),
                };
                match user {
                    Ok(user) => return Ok(user.authenticated()),
                    Err(error) => problem = Some(error),
                }
            }
        }
        match problem {
            Some(problem) => Err(problem),
            None if self.settings.is_anonymous_permitted => Ok(User::anonymous()),
            None => Err(AuthenticationError::None),
        }
    }

    /// The user of a token, which `source` sent.
    async fn user_of(
        &self,
        source: &str,
        token: &str,
        reviews: &dyn Reviews,
        ttl: Duration,
    ) -> Result<User, AuthenticationError> {
        let ask = async {
            let _question = self.questions.take(source).await;
            let user = with_retries(|| reviews.user_of(token)).await?;
            Ok((user, ttl))
        };
        match self.tokens.get(Sha256::digest(token).into(), ask).await {
            Ok(Some(user)) => Ok(user),
            Ok(None) => Err(AuthenticationError::Token),
            Err(error) => Err(AuthenticationError::Review(error)),
        }
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750), up to the next blank, as upstream.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut words = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split(' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

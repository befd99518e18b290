//! The object source of a standalone host, which has no objects. Pods that need any are rejected at admission.

use async_trait::async_trait;
use tokio::sync::watch;

use super::{
    ClaimError, ClaimRef, ClaimState, ObjectError, ObjectRef, ObjectSource, ObjectState, Token, TokenRequest,
};

/// A source without objects.
#[derive(Clone, Copy, Debug)]
pub struct Standalone;

fn unavailable() -> ObjectError {
    ObjectError::Unavailable("there is no API server".to_owned())
}

#[async_trait]
impl ObjectSource for Standalone {
    fn watch(&self, _: &ObjectRef) -> watch::Receiver<ObjectState> {
        watch::Sender::new(ObjectState::Failed(unavailable())).subscribe()
    }

    fn watch_claim(&self, _: &ClaimRef) -> watch::Receiver<ClaimState> {
        watch::Sender::new(ClaimState::Failed(ClaimError::FetchClaim(unavailable()))).subscribe()
    }

    async fn request_token(&self, _: &TokenRequest) -> Result<Token, ObjectError> {
        Err(unavailable())
    }
}

//! The object source of a host without an API server: there are no objects. Pods that need some are refused before they
//! get here.

use async_trait::async_trait;
use tokio::sync::watch;

use super::{ObjectError, ObjectRef, ObjectSource, ObjectState, Token, TokenRequest};

/// Has nothing.
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

    async fn request_token(&self, _: &TokenRequest) -> Result<Token, ObjectError> {
        Err(unavailable())
    }
}

//! What the node frees before a pod has to end: dead containers and unused images, as evictions ask for them. Decides nothing.

use async_trait::async_trait;
use hostlet_image::gc::ImageGc;

use crate::eviction::{ReclaimError, Reclaimer, Reclaims};
use crate::housekeeping::DeadContainers;

#[async_trait]
impl Reclaimer for DeadContainers {
    fn reclaims(&self) -> Reclaims {
        Reclaims::Containers
    }

    async fn reclaim(&self) -> Result<Option<String>, ReclaimError> {
        complete(self.delete_all().await.failed, "containers and sandboxes")?;
        Ok(None)
    }
}

#[async_trait]
impl Reclaimer for ImageGc {
    fn reclaims(&self) -> Reclaims {
        Reclaims::Images
    }

    async fn reclaim(&self) -> Result<Option<String>, ReclaimError> {
        let freed = self.delete_unused().await.map_err(|error| ReclaimError { source: error.into() })?;
        complete(freed.failures.len(), "images")?;
        Ok(freed.stays)
    }
}

fn complete(failed: usize, what: &str) -> Result<(), ReclaimError> {
    match failed {
        0 => Ok(()),
        _ => Err(ReclaimError { source: format!("the runtime failed to remove {failed} {what}").into() }),
    }
}

//! Observes the runtime's version and images.

use std::sync::Arc;
use std::time::Duration;

use hostlet_runtime::cri::{CriError, ImageService, RuntimeService};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::node::RuntimeFacts;

/// Interval between observations; as often as upstream lists images for the status.
const PERIOD: Duration = Duration::from_secs(30);

/// Pause after a failed observation.
const PERIOD_FAILING: Duration = Duration::from_secs(1);

/// Publishes the runtime's version and images until cancelled. While the runtime does not respond, the last values stay; the
/// runtime's status is observed elsewhere.
pub async fn observe_runtime(
    runtime: Arc<dyn RuntimeService>,
    images: Arc<dyn ImageService>,
    facts: watch::Sender<RuntimeFacts>,
    cancel: CancellationToken,
) {
    loop {
        let observed = tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => return,
            // Cancel-safe: it only reads.
            observed = observe(&*runtime, &*images) => observed,
        };
        let pause = match observed {
            Ok(observed_facts) => {
                facts.send_if_modified(|old| {
                    let changed = *old != observed_facts;
                    *old = observed_facts;
                    changed
                });
                PERIOD
            }
            Err(_) => PERIOD_FAILING,
        };
        tokio::select! {
            // Cancel-safe: as above.
            () = cancel.cancelled() => return,
            // Cancel-safe: a sleep.
            () = sleep(pause) => {}
        }
    }
}

async fn observe(runtime: &dyn RuntimeService, images: &dyn ImageService) -> Result<RuntimeFacts, CriError> {
    let version = runtime.version().await?;
    let images = images.list_images().await?;
    Ok(RuntimeFacts { version: Some(version), images })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_runtime::cri::fake::FakeRuntime;

    #[tokio::test(start_paused = true)]
    async fn new_images_are_published() {
        let fake = FakeRuntime::new();
        fake.add_image("docker.io/library/a:1");
        let (show, mut facts) = watch::channel(RuntimeFacts::default());
        let cancel = CancellationToken::new();
        let runtime = Arc::new(fake.clone());
        let task = observe_runtime(runtime.clone(), runtime, show, cancel.clone());
        let observed_facts = async {
            let first = facts.wait_for(|facts| facts.images.len() == 1).await.unwrap().clone();
            assert!(first.version.is_some());
            fake.add_image("docker.io/library/b:1");
            facts.wait_for(|facts| facts.images.len() == 2).await.unwrap();
            cancel.cancel();
        };
        tokio::join!(task, observed_facts);
    }
}

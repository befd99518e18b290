//! The images of sandboxes, which are a label of their metrics: asked of the runtime once for each sandbox. A runtime that does not
//! answer delays an answer only briefly; the label is empty then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use tokio::time::timeout;

use hostlet_base::SandboxId;
use hostlet_observe::stats::NodeUsage;
use hostlet_runtime::cri::RuntimeService;

/// How long an answer waits for the runtime.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions at once.
const PARALLEL: usize = 8;

/// The images that are known.
pub(super) struct SandboxImages {
    runtime: Arc<dyn RuntimeService>,
    known: Mutex<BTreeMap<SandboxId, String>>,
}

impl SandboxImages {
    /// None so far.
    pub(super) fn new(runtime: Arc<dyn RuntimeService>) -> Self {
        Self { runtime, known: Mutex::default() }
    }

    /// The images of these pods' sandboxes, as far as they are known.
    pub(super) async fn of(&self, usage: &NodeUsage) -> BTreeMap<SandboxId, String> {
        let wanted: BTreeSet<SandboxId> = usage.pods.iter().map(|pod| pod.sandbox.id.clone()).collect();
        let unknown: Vec<SandboxId> = {
            let mut known = self.known.lock();
            known.retain(|id, _| wanted.contains(id));
            wanted.into_iter().filter(|id| !known.contains_key(id)).collect()
        };
        let questions = stream::iter(unknown).map(|id| async move {
            // Without an answer it is asked again next time.
            if let Ok(image) = self.runtime.sandbox_image(&id).await {
                self.known.lock().insert(id, image.unwrap_or_default());
            }
        });
        // What was answered in time is known.
        let _ = timeout(PATIENCE, questions.buffer_unordered(PARALLEL).collect::<Vec<()>>()).await;
        self.known.lock().clone()
    }
}

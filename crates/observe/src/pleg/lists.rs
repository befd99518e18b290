//! Lists all pods: in two lists, or pod by pod while those exceed the size of a message. Keeps no listing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use hostlet_base::PodRef;
use hostlet_runtime::cri::{CriError, RuntimeService};
use tokio::time::Instant;

use super::inspect::{self, Everything};

/// Pause before everything is listed in one message again after such a list was too large: the runtime assembles it in vain.
const WHOLE_AGAIN: Duration = Duration::from_secs(10 * 60);

/// A completed listing of everything.
pub(super) struct Listed {
    /// When it began.
    pub(super) as_of: Instant,
    /// The runtime's objects.
    pub(super) result: Result<Everything, CriError>,
    /// The outcome of the lists of everything, if they were requested.
    whole: Option<Whole>,
}

enum Whole {
    Fits,
    TooLarge(CriError),
}

/// Lists everything.
pub(super) struct Lists {
    runtime: Arc<dyn RuntimeService>,
    /// Until when lists of everything are not requested; `None` while they fit.
    pod_by_pod_until: Option<Instant>,
}

impl Lists {
    pub(super) fn new(runtime: Arc<dyn RuntimeService>) -> Self {
        Self { runtime, pod_by_pod_until: None }
    }

    /// Begins a listing. `known` are the pods listed before; if the runtime cannot list its pods, only these are listed.
    pub(super) fn begin(&self, known: Vec<PodRef>) -> BoxFuture<'static, Listed> {
        let (runtime, as_of) = (self.runtime.clone(), Instant::now());
        let is_too_large = self.pod_by_pod_until.is_some_and(|until| as_of < until);
        async move {
            let mut whole = None;
            if !is_too_large {
                match inspect::list_all(&*runtime).await {
                    Err(error @ CriError::TooLarge { .. }) => whole = Some(Whole::TooLarge(error)),
                    Ok(found) => return Listed { as_of, result: Ok(found), whole: Some(Whole::Fits) },
                    Err(error) => return Listed { as_of, result: Err(error), whole: None },
                }
            }
            Listed { as_of, result: inspect::list_pod_by_pod(&*runtime, known).await, whole }
        }
        .boxed()
    }

    /// Records the outcome for the next listing.
    pub(super) fn ended(&mut self, listed: &Listed) {
        // Logged once per occurrence.
        let were_too_large = self.pod_by_pod_until.is_some();
        match &listed.whole {
            None => {}
            Some(Whole::Fits) => {
                self.pod_by_pod_until = None;
                if were_too_large {
                    tracing::info!("the container runtime's lists fit into one message again");
                }
            }
            Some(Whole::TooLarge(error)) => {
                if !were_too_large {
                    tracing::warn!(
                        %error,
                        "a list of all containers or sandboxes is too large for one message; asking pod by pod. Very \
                         large annotations of pods do this"
                    );
                }
                self.pod_by_pod_until = Some(Instant::now() + WHOLE_AGAIN);
            }
        }
    }
}

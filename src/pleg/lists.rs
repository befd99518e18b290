//! How everything is listed: in two lists, or pod by pod while those are larger than a message may be. Knows nothing of
//! what was listed before.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::time::Instant;

use super::inspect::{self, Pods};
use crate::cri::{CriError, RuntimeService};
use crate::types::PodRef;

/// How long lists that were too large count as such: asking for them makes the runtime put them together in vain.
const WHOLE_AGAIN: Duration = Duration::from_secs(10 * 60);

/// A listing of everything that ended.
pub(super) struct Listed {
    /// When it began.
    pub(super) as_of: Instant,
    /// What there is, by pod.
    pub(super) result: Result<Pods, CriError>,
    /// What became of the lists of everything, if they were asked for.
    whole: Option<Whole>,
}

enum Whole {
    Fits,
    TooLarge(CriError),
}

/// Lists everything.
pub(super) struct Lists {
    runtime: Arc<dyn RuntimeService>,
    /// Until when lists of everything are not asked for; none while they fit.
    pod_by_pod_until: Option<Instant>,
}

impl Lists {
    pub(super) fn new(runtime: Arc<dyn RuntimeService>) -> Self {
        Self { runtime, pod_by_pod_until: None }
    }

    /// Begins a listing. `known` are the pods listed before: of these alone a runtime can be asked that cannot say which
    /// it has.
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

    /// Takes note of how it went, for the next.
    pub(super) fn ended(&mut self, listed: &Listed) {
        // Told once for as long as it lasts.
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

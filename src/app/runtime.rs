//! Meeting the runtime: waits for it, for ever if need be, and learns what must be known before the first pod.

use tokio_util::sync::CancellationToken;

use crate::cri::{CriError, FIRST_ANSWER_RETRY, RuntimeService, Version};
use crate::types::{CgroupDriver, error_chain};

/// What is learned of the runtime.
#[derive(Clone, Debug)]
pub(super) struct Met {
    /// Name and version.
    pub(super) version: Version,
    /// The cgroup driver it uses; none if it cannot say.
    pub(super) cgroup_driver: Option<CgroupDriver>,
}

/// Waits until the runtime answers; `None` when cancelled before.
pub(super) async fn meet(runtime: &dyn RuntimeService, cancel: &CancellationToken) -> Option<Met> {
    let mut told = None;
    loop {
        let error = tokio::select! {
            // Cancel-safe: waiting for a token takes nothing.
            () = cancel.cancelled() => return None,
            // Cancel-safe: asking changes nothing.
            answer = ask(runtime) => match answer {
                Ok(met) => return Some(met),
                Err(error) => error_chain(&error),
            },
        };
        if told.as_ref() != Some(&error) {
            tracing::warn!(error, "waiting for the container runtime");
            told = Some(error);
        }
        tokio::select! {
            // Cancel-safe: as above.
            () = cancel.cancelled() => return None,
            // Cancel-safe: a pause takes nothing.
            () = tokio::time::sleep(FIRST_ANSWER_RETRY) => {}
        }
    }
}

async fn ask(runtime: &dyn RuntimeService) -> Result<Met, CriError> {
    let version = runtime.version().await?;
    let cgroup_driver = runtime.cgroup_driver().await?;
    Ok(Met { version, cgroup_driver })
}

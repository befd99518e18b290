//! The pods in a runtime, in any state. Reads only.

use std::collections::BTreeSet;

use crate::cri::{CriError, RuntimeService};
use crate::types::PodRef;

/// All pods with a sandbox or a container in the runtime, by namespace and name.
pub async fn runtime_pods(runtime: &dyn RuntimeService) -> Result<BTreeSet<PodRef>, CriError> {
    let listed = async {
        let sandboxes = runtime.list_sandboxes(None).await?.into_iter().map(|sandbox| sandbox.pod);
        let mut pods: BTreeSet<PodRef> = sandboxes.collect();
        pods.extend(runtime.list_containers(None).await?.into_iter().map(|container| container.pod));
        Ok(pods)
    };
    match listed.await {
        Err(CriError::TooLarge { .. }) => Ok(runtime.list_pods().await?.into_iter().collect()),
        listed => listed,
    }
}

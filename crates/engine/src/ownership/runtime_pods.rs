//! The pods in a runtime, in any state. Reads only.

use std::collections::BTreeSet;

use hostlet_base::PodRef;
use hostlet_runtime::cri::{ContainerState, CriError, RuntimeService, SandboxState};

/// All pods with a sandbox or a container in the runtime, by namespace and name.
pub async fn runtime_pods(runtime: &dyn RuntimeService) -> Result<BTreeSet<PodRef>, CriError> {
    let listed = async {
        let sandboxes = runtime.list_sandboxes(None).await?;
        let mut pods: BTreeSet<PodRef> = sandboxes.iter().map(|sandbox| sandbox.pod.clone()).collect();
        let containers = runtime.list_containers(None).await?;
        pods.extend(containers.iter().map(|container| container.pod.clone()));
        Ok(pods)
    };
    match listed.await {
        Err(CriError::TooLarge { .. }) => Ok(runtime.list_pods().await?.into_iter().collect()),
        listed => listed,
    }
}

/// The pods of which a sandbox or a container runs.
pub async fn running_pods(runtime: &dyn RuntimeService) -> Result<BTreeSet<PodRef>, CriError> {
    let listed = async {
        let sandboxes = runtime.list_sandboxes(None).await?;
        let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
        let mut pods: BTreeSet<PodRef> = ready.map(|sandbox| sandbox.pod.clone()).collect();
        let containers = runtime.list_containers(None).await?;
        let running = containers.iter().filter(|container| container.state == ContainerState::Running);
        pods.extend(running.map(|container| container.pod.clone()));
        Ok(pods)
    };
    match listed.await {
        // Which of them run is in no shorter list.
        Err(CriError::TooLarge { .. }) => runtime_pods(runtime).await,
        listed => listed,
    }
}

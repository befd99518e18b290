//! `runtimeHandlers` and `features`: what the runtime supports.

use k8s_openapi::api::core::v1::{NodeFeatures, NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeStatus};

use hostlet_runtime::cri::{RuntimeHandler, RuntimeStatus};

/// Sets both; until the runtime responds, the reported values stay.
pub(super) fn set(status: &mut NodeStatus, runtime: Option<&RuntimeStatus>) {
    let Some(runtime) = runtime else { return };
    let mut handlers: Vec<NodeRuntimeHandler> = runtime.handlers.iter().map(node_handler).collect();
    handlers.sort_by(|a, b| a.name.cmp(&b.name));
    status.runtime_handlers = (!handlers.is_empty()).then_some(handlers);
    status.features = runtime.features.map(|features| NodeFeatures {
        supplemental_groups_policy: Some(features.supplemental_groups_policy),
    });
}

fn node_handler(handler: &RuntimeHandler) -> NodeRuntimeHandler {
    NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(handler.recursive_read_only_mounts),
            user_namespaces: Some(handler.user_namespaces),
        }),
    }
}

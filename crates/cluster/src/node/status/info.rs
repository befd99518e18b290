//! `nodeInfo`: identities and versions.

use hostlet_base::node::NodeEvent;
use hostlet_base::{KUBERNETES_VERSION, architecture};
use hostlet_host::Machine;
use hostlet_runtime::cri::Version;
use k8s_openapi::api::core::v1::{NodeStatus, NodeSwapStatus, NodeSystemInfo};

use super::events::rebooted_event;

/// Returns an event if the machine was rebooted since the status was last set.
pub(super) fn set(
    status: &mut NodeStatus,
    node: &str,
    machine: &Machine,
    runtime: Option<&Version>,
) -> Option<NodeEvent> {
    let before = status.node_info.take().unwrap_or_default();
    let container_runtime_version = match runtime {
        Some(version) => format!("{}://{}", version.runtime_name, version.runtime_version),
        // The runtime has not responded yet; the previous value is more likely correct than none.
        None => before.container_runtime_version,
    };
    status.node_info = Some(NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: machine.boot_id.clone(),
        container_runtime_version,
        kernel_version: machine.kernel_version.clone(),
        kube_proxy_version: String::new(),
        kubelet_version: KUBERNETES_VERSION.to_owned(),
        machine_id: machine.machine_id.clone(),
        operating_system: "linux".to_owned(),
        os_image: machine.os_image.clone(),
        running_in_user_namespace: Some(machine.in_user_namespace),
        swap: (machine.swap > 0).then(|| NodeSwapStatus { capacity: i64::try_from(machine.swap).ok() }),
        system_uuid: machine.system_uuid.clone(),
    });
    let rebooted = !before.boot_id.is_empty() && before.boot_id != machine.boot_id;
    rebooted.then(|| rebooted_event(node, &machine.boot_id))
}

//! User namespaces in the configurations of sandboxes and containers. Pure.

use hostlet_runtime::cri::wire::{
    ContainerConfig, IdMapping, NamespaceMode, NamespaceOption, PodSandboxConfig, UserNamespace,
};

use super::IdRange;

/// Gives the sandbox a user namespace with this range.
pub(crate) fn isolate_users(config: &mut PodSandboxConfig, range: IdRange) {
    let linux = config.linux.get_or_insert_default();
    let context = linux.security_context.get_or_insert_default();
    let mappings = vec![IdMapping { host_id: range.first, container_id: 0, length: range.length }];
    context.namespace_options.get_or_insert_default().userns_options =
        Some(UserNamespace { mode: NamespaceMode::Pod.into(), uids: mappings.clone(), gids: mappings });
}

/// Puts a container into the user namespace of its sandbox, if that has one. Its mounts show the IDs of the volumes (idmapped mounts).
pub(in crate::cri_config) fn share_users(config: &mut ContainerConfig, sandbox: &PodSandboxConfig) {
    let context = sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = context.and_then(|context| context.namespace_options.as_ref());
    let Some(users) = options.and_then(|options| options.userns_options.clone()) else { return };
    if users.mode() != NamespaceMode::Pod {
        return;
    }
    for mount in &mut config.mounts {
        (mount.uid_mappings, mount.gid_mappings) = (users.uids.clone(), users.gids.clone());
    }
    let linux = config.linux.get_or_insert_default();
    let context = linux.security_context.get_or_insert_default();
    let options: &mut NamespaceOption = context.namespace_options.get_or_insert_default();
    options.userns_options = Some(users);
}

//! The groups that a pod's volumes give to its processes (`pv.beta.kubernetes.io/gid`), in the configurations of its sandbox and
//! containers. Pure.

use std::collections::BTreeSet;

use hostlet_runtime::cri::wire::{ContainerConfig, PodSandboxConfig};

/// Adds them to the groups of a container.
pub(super) fn join_groups(config: &mut ContainerConfig, groups: &BTreeSet<i64>) {
    if let Some(context) = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut()) {
        join(&mut context.supplemental_groups, groups);
    }
}

/// Adds them to the groups of a sandbox.
pub(crate) fn join_sandbox_groups(config: &mut PodSandboxConfig, groups: &BTreeSet<i64>) {
    if let Some(context) = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut()) {
        join(&mut context.supplemental_groups, groups);
    }
}

fn join(own: &mut Vec<i64>, groups: &BTreeSet<i64>) {
    for group in groups {
        if !own.contains(group) {
            own.push(*group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_runtime::cri::wire::{LinuxContainerConfig, LinuxContainerSecurityContext};

    #[test]
    fn groups_of_volumes_are_added_once() {
        let context =
            LinuxContainerSecurityContext { supplemental_groups: vec![3000, 2000], ..Default::default() };
        let linux = LinuxContainerConfig { security_context: Some(context), ..Default::default() };
        let mut config = ContainerConfig { linux: Some(linux), ..Default::default() };
        join_groups(&mut config, &[1000, 2000, 5000].into());
        let context = config.linux.unwrap().security_context.unwrap();
        assert_eq!(context.supplemental_groups, [3000, 2000, 1000, 5000]);
    }
}

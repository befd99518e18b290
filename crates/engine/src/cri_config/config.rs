//! The container configuration, as sent by a stock kubelet. Pure: `files` creates the files it refers to.

use std::collections::BTreeSet;

use hostlet_base::{ContainerId, stop_signal_number};
use hostlet_observe::log::container_log_path;
use hostlet_pod::absolute_mount_path;
use hostlet_pod::view::PodView;
use hostlet_resources::{ContainerGrant, GrantedDevice, GrantedMount};
use hostlet_runtime::cri::ImageInfo;
use hostlet_runtime::cri::wire::{
    CdiDevice, ContainerConfig, ContainerMetadata, Device, ImageSpec, KeyValue, LinuxContainerConfig, Mount,
    NamespaceMode, PodSandboxConfig,
};
use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use super::annotations::{container_annotations, container_labels};
use super::env::{EnvSources, environment};
use super::linux_resources::{container_resources, granted_resources};
use super::security::container_context;
use super::user_namespaces::share_users;
use super::volume_groups::join_groups;
use super::{ConfigError, HostSettings};

/// What a container's configuration is made from: what should run, and what was found or prepared for this start.
#[derive(Clone, Debug)]
pub(crate) struct ContainerInput<'a> {
    pub pod: &'a Pod,
    /// The container, which is one of the pod's.
    pub container: &'a Container,
    /// The host's settings.
    pub host: &'a HostSettings,
    /// Its restart count.
    pub attempt: u32,
    /// Its image, which is present.
    pub image: &'a ImageInfo,
    /// The inputs of its environment.
    pub env: &'a EnvSources<'a>,
    /// The pod's sandbox, whose user namespace it shares.
    pub sandbox: &'a PodSandboxConfig,
    /// The container whose processes it sees (`targetContainerName` of an ephemeral container).
    pub target: Option<&'a ContainerId>,
    /// What others give it.
    pub extras: ContainerExtras,
}

/// What a container is given beyond its own spec, by those that provide what the spec only names.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerExtras {
    /// The result of [`super::container_mounts`].
    pub mounts: Vec<Mount>,
    /// The result of [`super::container_devices`].
    pub devices: Vec<Device>,
    /// The groups that its volumes give to its processes.
    pub groups: BTreeSet<i64>,
    /// What it was granted. Its variables are an input of the environment.
    pub grant: ContainerGrant,
}

/// The configuration of a pod's container.
pub(crate) fn container_config(input: ContainerInput<'_>) -> Result<ContainerConfig, ConfigError> {
    let ContainerInput { pod: api, container, host, attempt, image, env, sandbox, target, extras } = input;
    let ContainerExtras { mounts, devices, groups, grant } = extras;
    let pod = PodView::from(api);
    check_volumes(container, &mounts)?;
    let environment = environment(pod, container, env, host)?;
    let expanded = |words: &Option<Vec<String>>| {
        words.iter().flatten().map(|word| environment.expand_text(word)).collect::<Result<_, _>>()
    };
    let (command, args) = (expanded(&container.command)?, expanded(&container.args)?);
    let variables = environment.into_variables().into_iter();
    let envs = variables.map(|(key, value)| KeyValue { key, value }).collect();
    let mut config = ContainerConfig {
        metadata: Some(ContainerMetadata { name: container.name.clone(), attempt }),
        image: Some(ImageSpec {
            image: image.id.clone(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command,
        args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs,
        mounts: grant.mounts.into_iter().map(granted_mount).chain(mounts).collect(),
        devices: grant.devices.into_iter().map(granted_device).chain(devices).collect(),
        cdi_devices: grant.cdi_devices.into_iter().map(|name| CdiDevice { name }).collect(),
        labels: container_labels(pod, container),
        annotations: container_annotations(pod, container, attempt, grant.annotations),
        log_path: container_log_path(&container.name, attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        stop_signal: stop_signal(container, host),
        linux: Some(LinuxContainerConfig {
            resources: Some(granted_resources(
                container_resources(api, container, host),
                grant.cpus,
                grant.memory_nodes,
            )),
            security_context: Some(container_context(pod, container, image, host)?),
        }),
        ..Default::default()
    };
    join_groups(&mut config, &groups);
    share_users(&mut config, sandbox);
    if let Some(target) = target {
        share_processes(&mut config, target);
    }
    Ok(config)
}

fn granted_mount(mount: GrantedMount) -> Mount {
    Mount {
        host_path: mount.host_path,
        container_path: mount.container_path,
        readonly: mount.read_only,
        ..Default::default()
    }
}

fn granted_device(device: GrantedDevice) -> Device {
    let GrantedDevice { host_path, container_path, permissions } = device;
    Device { container_path, host_path, permissions }
}

/// The CRI's number of the signal that stops the container; 0 if its image or the runtime decides.
fn stop_signal(container: &Container, host: &HostSettings) -> i32 {
    let wanted = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    wanted.filter(|_| host.stop_signals).and_then(stop_signal_number).unwrap_or_default()
}

/// Lets an ephemeral container see the processes of `target` (`targetContainerName`), unless it sees them anyway because the pod shares
/// one PID namespace or has the host's.
fn share_processes(config: &mut ContainerConfig, target: &ContainerId) {
    let linux = config.linux.get_or_insert_default();
    let namespaces = linux.security_context.get_or_insert_default().namespace_options.get_or_insert_default();
    if namespaces.pid() == NamespaceMode::Container {
        namespaces.pid = NamespaceMode::Target.into();
        namespaces.target_id = target.to_string();
    }
}

/// Fails if a mount's volume is missing: a container must never start without it.
fn check_volumes(container: &Container, mounts: &[Mount]) -> Result<(), ConfigError> {
    let mounted = |wanted: &VolumeMount| {
        let path = absolute_mount_path(wanted);
        mounts.iter().any(|mount| mount.container_path == path)
    };
    match container.volume_mounts.iter().flatten().find(|wanted| !mounted(wanted)) {
        None => Ok(()),
        Some(missing) => Err(ConfigError::MissingVolume {
            volume: missing.name.clone(),
            container: container.name.clone(),
        }),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;

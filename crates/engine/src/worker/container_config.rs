//! Gathers the input of a container's configuration: its environment, the parts of volumes that it mounts, and the container whose
//! processes it sees. Does not decide what the configuration is made of: that is `cri_config`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hostlet_base::{ContainerId, error_chain, reasons};
use hostlet_devices::PodStage;
use hostlet_pod::AdmittedPod;
use hostlet_resources::ContainerGrant;
use hostlet_runtime::cri::ImageInfo;
use hostlet_runtime::cri::wire::{ContainerConfig, ImageSpec};
use hostlet_volume::SubPath;
use k8s_openapi::api::core::v1::Container;

use super::container::{ContainerStarter, NotStarted, PreparedPod};
use super::context::WorkerContext;
use super::env_files::file_values;
use super::handler::handler_of;
use super::{EnvNeeds, Retry};
use crate::cri_config::{
    ConfigError, ContainerExtras, ContainerInput, EnvSources, FilesError, MountSources, container_config,
    container_devices, container_mounts, sub_paths,
};

impl ContainerStarter<'_> {
    /// The configuration of this attempt, which runs `image` and mounts `images`, by volume. Reports why there is none.
    pub(super) async fn config(
        &mut self,
        attempt: u32,
        image: &ImageInfo,
        images: &BTreeMap<String, ImageSpec>,
    ) -> Result<ContainerConfig, NotStarted> {
        let (pod, container, host) = (&**self.pod, self.container, &self.context.host.settings);
        let target = self.target()?;
        let grant = self.grant().await?;
        let mut env = env_sources(self.context, pod, container, self.prepared, &mut self.state.env).await;
        env.granted.clone_from(&grant.env);
        let config = async {
            let (volumes, sandbox) = (&self.prepared.volumes, &self.prepared.sandbox);
            let parts = self.mount_parts(&env, images).await?;
            let mounted = MountSources {
                volumes,
                images,
                parts: &parts,
                pod_ips: &sandbox.ips,
                recursive_read_only: handler_of(self.context, pod).recursive_read_only_mounts,
            };
            let mounts = container_mounts(pod, container, mounted, host).await?;
            let devices = container_devices(container, volumes)?;
            let input = ContainerInput {
                pod,
                container,
                host,
                attempt,
                image,
                env: &env,
                sandbox: &sandbox.config,
                target: target.as_ref(),
                extras: ContainerExtras { mounts, devices, groups: volumes.groups.clone(), grant },
            };
            Ok::<_, FilesError>(container_config(input)?)
        };
        config.await.map_err(|error| {
            self.state.env.lacks(&self.container.name);
            self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, error_chain(&error), Retry::BackOff)
        })
    }

    /// What the pod was granted for this container: devices of its claims, then the others, as upstream.
    async fn grant(&mut self) -> Result<ContainerGrant, NotStarted> {
        let sandbox = &self.prepared.sandbox.id;
        // Its sandbox did not survive a boot of the host.
        let stage = match self
            .observed
            .containers
            .iter()
            .any(|container| container.sandbox.as_ref() == Some(sandbox))
        {
            true => PodStage::Running,
            false => PodStage::New,
        };
        let claimed = self.context.host.claims.cdi_devices(self.pod, self.container);
        let cdi_devices = claimed.map_err(|error| {
            self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, error.to_string(), Retry::BackOff)
        })?;
        let granted = self.context.grants.of(self.pod.object(), &self.container.name, stage).await;
        let granted = granted.map_err(|error| {
            self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, error_chain(&error), Retry::BackOff)
        })?;
        Ok(ContainerGrant { cdi_devices, ..ContainerGrant::default() }.joined(granted))
    }

    /// The container whose processes an ephemeral container can see (`targetContainerName`).
    fn target(&mut self) -> Result<Option<ContainerId>, NotStarted> {
        let mut ephemeral = self.pod.spec().ephemeral_containers.iter().flatten();
        let own = ephemeral.find(|ephemeral| ephemeral.name == self.container.name);
        let Some(name) =
            own.and_then(|own| own.target_container_name.as_ref()).filter(|name| !name.is_empty())
        else {
            return Ok(None);
        };
        match self.observed.container(name) {
            Some(target) => Ok(Some(target.id.clone())),
            None => {
                let message = format!("unable to find target container {name}");
                Err(self.failed(reasons::CREATE_CONTAINER_CONFIG_ERROR, message, Retry::BackOff))
            }
        }
    }

    /// Mounts the parts of volumes that the container mounts. Returns where, by the index of the mount; of an image, its path in it:
    /// the runtime mounts that.
    async fn mount_parts(
        &self,
        env: &EnvSources<'_>,
        images: &BTreeMap<String, ImageSpec>,
    ) -> Result<BTreeMap<usize, PathBuf>, ConfigError> {
        let (container, host) = (self.container, &self.context.host);
        let mut mounted = BTreeMap::new();
        for (index, path) in sub_paths(self.pod, container, env, &host.settings)? {
            let Some(mount) = container.volume_mounts.iter().flatten().nth(index) else { continue };
            if images.contains_key(&mount.name) {
                mounted.insert(index, path);
                continue;
            }
            let Some(volume) = self.prepared.volumes.mounted.get(&mount.name) else { continue };
            let part = SubPath {
                uid: self.pod.reference.uid.clone(),
                volume: mount.name.clone(),
                host_path: volume.host_path.clone(),
                container: container.name.clone(),
                index,
                path,
            };
            let at = host.volumes.mount_part(part).await.map_err(|error| {
                let pod = &self.pod.reference;
                let (volume, container) = (mount.name.clone(), container.name.clone());
                tracing::warn!(%pod, uid = %pod.uid, container, volume, error = error_chain(&error), "cannot mount a part of a volume");
                ConfigError::SubPath { volume, container }
            })?;
            mounted.insert(index, at);
        }
        Ok(mounted)
    }
}

/// The sources of a container's environment. Waits briefly for those that are not known yet.
async fn env_sources<'s>(
    context: &WorkerContext,
    pod: &AdmittedPod,
    container: &Container,
    prepared: &'s PreparedPod,
    needs: &mut EnvNeeds,
) -> EnvSources<'s> {
    let objects = needs.of(&container.name).await;
    let services = &context.env.services;
    let links = pod.spec().enable_service_links.unwrap_or(true);
    let variables = || services.variables(&pod.reference.namespace, links);
    let variables = if pod.is_static {
        // It starts without an API server too, with the services that are known.
        Some(variables().unwrap_or_default())
    } else {
        services.first_answer().await;
        variables()
    };
    if variables.is_none() {
        needs.lacks_services(services);
    }
    let files = file_values(context, pod, container, &prepared.volumes).await;
    EnvSources {
        pod_ips: &prepared.sandbox.ips,
        objects,
        files,
        services: variables,
        granted: BTreeMap::new(),
    }
}

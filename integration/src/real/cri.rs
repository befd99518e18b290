//! A CRI client independent of hostlet's: tests must not rely on the code they test.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hostlet_engine::cri_config::{MASKED_PATHS, READONLY_PATHS};
use hostlet_proto::cri::image_service_client::ImageServiceClient;
use hostlet_proto::cri::runtime_service_client::RuntimeServiceClient;
use hostlet_proto::cri::security_profile::ProfileType;
use hostlet_proto::cri::{
    Container, ContainerConfig, ContainerMetadata, ContainerStatus, ContainerStatusRequest,
    CreateContainerRequest, ExecSyncRequest, ImageSpec, LinuxContainerConfig, LinuxContainerSecurityContext,
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, ListContainersRequest, ListPodSandboxRequest,
    NamespaceMode, NamespaceOption, PodSandbox, PodSandboxConfig, PodSandboxMetadata,
    PodSandboxStatusRequest, PullImageRequest, RemovePodSandboxRequest, RunPodSandboxRequest,
    SecurityProfile, StartContainerRequest, StatusRequest, StopContainerRequest, StopPodSandboxRequest,
};
use tonic::transport::{Channel, Endpoint};

/// Longer than any call of a healthy runtime, even on a slow machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A CRI client.
#[derive(Clone, Debug)]
pub struct Cri {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

/// A sandbox to start by hand.
#[derive(Clone, Debug)]
pub struct CriSandbox {
    config: PodSandboxConfig,
}

impl CriSandbox {
    /// A sandbox of the pod `name` in the namespace `default`, in the top-level cgroup `cgroup`, with the runtime's default
    /// seccomp profile like every kubelet's, which takes the runtime some milliseconds.
    pub fn new(name: &str, cgroup: &str, log_directory: &Path) -> Self {
        let metadata = PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let seccomp = SecurityProfile {
            profile_type: ProfileType::RuntimeDefault as i32,
            localhost_ref: String::new(),
        };
        let linux = LinuxPodSandboxConfig {
            cgroup_parent: format!("/{cgroup}"),
            security_context: Some(LinuxSandboxSecurityContext {
                seccomp: Some(seccomp),
                ..Default::default()
            }),
            ..Default::default()
        };
        let config = PodSandboxConfig {
            metadata: Some(metadata),
            hostname: name.to_owned(),
            log_directory: log_directory.to_string_lossy().into_owned(),
            linux: Some(linux),
            ..Default::default()
        };
        Self { config }
    }

    /// The same with labels, e.g. a kubelet's.
    #[must_use]
    pub fn labels(mut self, labels: &[(&str, &str)]) -> Self {
        self.config.labels =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<HashMap<_, _>>();
        self
    }
}

impl Cri {
    /// Connects to a runtime's socket.
    pub async fn connect(socket: &Path) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?.timeout(DEADLINE);
        let channel =
            endpoint.connect().await.with_context(|| format!("connecting to {}", socket.display()))?;
        let images = ImageServiceClient::new(channel.clone());
        Ok(Self { runtime: RuntimeServiceClient::new(channel), images })
    }

    fn runtime(&self) -> RuntimeServiceClient<Channel> {
        self.runtime.clone()
    }

    /// All sandboxes, ready or not.
    pub async fn sandboxes(&self) -> Result<Vec<PodSandbox>> {
        let answer = self.runtime().list_pod_sandbox(ListPodSandboxRequest::default()).await;
        Ok(answer.context("listing sandboxes")?.into_inner().items)
    }

    /// All containers, in any state.
    pub async fn containers(&self) -> Result<Vec<Container>> {
        let answer = self.runtime().list_containers(ListContainersRequest::default()).await;
        Ok(answer.context("listing containers")?.into_inner().containers)
    }

    /// The verbose status of a container.
    pub async fn container_status(&self, id: &str) -> Result<ContainerStatus> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer = self.runtime().container_status(request).await;
        answer.with_context(|| format!("status of {id}"))?.into_inner().status.context("an empty status")
    }

    /// The sorted names of the runtime's handlers; the default one is unnamed.
    pub async fn runtime_handlers(&self) -> Result<Vec<String>> {
        let status =
            self.runtime().status(StatusRequest { verbose: false }).await.context("the runtime's status")?;
        let mut names: Vec<_> = status.into_inner().runtime_handlers.into_iter().map(|h| h.name).collect();
        names.sort();
        Ok(names)
    }

    /// The IP of a sandbox.
    pub async fn sandbox_ip(&self, id: &str) -> Result<String> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer = self.runtime().pod_sandbox_status(request).await;
        let status = answer.with_context(|| format!("status of {id}"))?.into_inner().status;
        Ok(status.and_then(|status| status.network).context("a sandbox without network")?.ip)
    }

    /// The file of a sandbox's network namespace; `None` for the host's.
    pub async fn sandbox_netns(&self, id: &str) -> Result<Option<String>> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
        let answer = self.runtime().pod_sandbox_status(request).await;
        let info = answer.with_context(|| format!("status of {id}"))?.into_inner().info;
        let info = info.get("info").context("a status without details")?;
        let info: serde_json::Value = serde_json::from_str(info).context("details of a sandbox")?;
        let namespaces = info["runtimeSpec"]["linux"]["namespaces"].as_array().cloned().unwrap_or_default();
        let network = namespaces.iter().find(|namespace| namespace["type"] == "network");
        Ok(network.and_then(|network| Some(network["path"].as_str()?.to_owned())))
    }

    /// Starts a sandbox; its id.
    pub async fn run_sandbox(&self, sandbox: &CriSandbox) -> Result<String> {
        let request =
            RunPodSandboxRequest { config: Some(sandbox.config.clone()), runtime_handler: String::new() };
        Ok(self
            .runtime()
            .run_pod_sandbox(request)
            .await
            .context("running a sandbox")?
            .into_inner()
            .pod_sandbox_id)
    }

    /// Pulls an image for a sandbox.
    pub async fn pull(&self, sandbox: &CriSandbox, image: &str) -> Result<()> {
        let request = PullImageRequest {
            image: Some(ImageSpec { image: image.to_owned(), ..ImageSpec::default() }),
            auth: None,
            sandbox_config: Some(sandbox.config.clone()),
        };
        self.images.clone().pull_image(request).await.with_context(|| format!("pulling {image}"))?;
        Ok(())
    }

    /// Creates and starts a container of the local busybox image in a sandbox; its id.
    pub async fn run_container(
        &self,
        sandbox: &CriSandbox,
        sandbox_id: &str,
        name: &str,
        command: &[&str],
    ) -> Result<String> {
        self.run_image(sandbox, sandbox_id, super::BUSYBOX_IMAGE, name, command).await
    }

    /// The same with another image.
    pub async fn run_image(
        &self,
        sandbox: &CriSandbox,
        sandbox_id: &str,
        image: &str,
        name: &str,
        command: &[&str],
    ) -> Result<String> {
        let mut config = container_config(image, name, 0);
        config.command = command.iter().map(|&word| word.to_owned()).collect();
        self.start_container(sandbox, sandbox_id, config).await
    }

    /// Creates and starts the `attempt`th container of the pause image, which exits at once on SIGTERM; its ID. Paths that
    /// expose the host are masked, like every kubelet's, which takes runc a mount per path.
    pub async fn run_pause(&self, sandbox: &CriSandbox, sandbox_id: &str, attempt: u32) -> Result<String> {
        let own_pids = NamespaceOption { pid: NamespaceMode::Container as i32, ..Default::default() };
        let hidden = LinuxContainerSecurityContext {
            namespace_options: Some(own_pids),
            masked_paths: MASKED_PATHS.map(str::to_owned).into(),
            readonly_paths: READONLY_PATHS.map(str::to_owned).into(),
            ..Default::default()
        };
        let mut config = container_config(super::PAUSE_IMAGE, "pause", attempt);
        config.linux = Some(LinuxContainerConfig { security_context: Some(hidden), ..Default::default() });
        self.start_container(sandbox, sandbox_id, config).await
    }

    async fn start_container(
        &self,
        sandbox: &CriSandbox,
        sandbox_id: &str,
        mut config: ContainerConfig,
    ) -> Result<String> {
        config.labels = sandbox.config.labels.clone();
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox.config.clone()),
        };
        let id = self.runtime().create_container(request).await.context("creating a container")?;
        let container_id = id.into_inner().container_id;
        let request = StartContainerRequest { container_id: container_id.clone() };
        self.runtime().start_container(request).await.context("starting a container")?;
        Ok(container_id)
    }

    /// Kills a container with SIGKILL, like a crash.
    pub async fn kill_container(&self, id: &str) -> Result<()> {
        self.stop_container(id, 0).await
    }

    /// Stops a container: SIGTERM, and SIGKILL after `grace` seconds.
    pub async fn stop_container(&self, id: &str, grace: i64) -> Result<()> {
        let request = StopContainerRequest { container_id: id.to_owned(), timeout: grace };
        self.runtime().stop_container(request).await.with_context(|| format!("stopping {id}"))?;
        Ok(())
    }

    /// Runs a command in a container, which has to succeed.
    pub async fn exec(&self, id: &str, command: &[&str]) -> Result<()> {
        let cmd = command.iter().map(|&word| word.to_owned()).collect();
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd, timeout: 10 };
        let answer = self.runtime().exec_sync(request).await.with_context(|| format!("a command in {id}"))?;
        let code = answer.into_inner().exit_code;
        ensure!(code == 0, "{command:?} in {id} exited with {code}");
        Ok(())
    }

    /// Stops a sandbox with all its containers.
    pub async fn stop_sandbox(&self, id: &str) -> Result<()> {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime().stop_pod_sandbox(request).await.with_context(|| format!("stopping {id}"))?;
        Ok(())
    }

    /// Stops and removes a sandbox with all its containers.
    pub async fn remove_sandbox(&self, id: &str) -> Result<()> {
        self.stop_sandbox(id).await?;
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime().remove_pod_sandbox(request).await.with_context(|| format!("removing {id}"))?;
        Ok(())
    }
}

fn container_config(image: &str, name: &str, attempt: u32) -> ContainerConfig {
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt }),
        image: Some(ImageSpec { image: image.to_owned(), ..Default::default() }),
        log_path: format!("{name}.{attempt}.log"),
        ..Default::default()
    }
}

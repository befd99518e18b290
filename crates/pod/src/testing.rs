//! Small pods and observations for tests.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use hostlet_base::{
    CONFIG_SOURCE_ANNOTATION, CONTAINER_NAME_LABEL, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL,
    POD_UID_LABEL, PodRef, SandboxId,
};
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata,
};
use hostlet_runtime::cri::{ContainerState, ContainerStatus, RuntimeService, SandboxState, SandboxStatus};

/// A static pod with these containers, all of image `img`.
pub fn pod(name: &str, uid: &str, policy: &str, containers: &[&str]) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some(uid.to_owned()),
            annotations: Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), "file".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            restart_policy: Some(policy.to_owned()),
            termination_grace_period_seconds: Some(30),
            containers: containers
                .iter()
                .map(|c| Container {
                    name: (*c).to_owned(),
                    image: Some("img".to_owned()),
                    image_pull_policy: Some("IfNotPresent".to_owned()),
                    ..Container::default()
                })
                .collect(),
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// A container in this state, with ID `<name>-<attempt>`, in sandbox `s0`.
pub fn container(name: &str, attempt: u32, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: ContainerId::from(format!("{name}-{attempt}")),
        name: name.into(),
        attempt,
        sandbox: Some(SandboxId::from("s0")),
        state,
        created_at: Timestamp::from_second(1000 + i64::from(attempt)).unwrap(),
        started_at: None,
        finished_at: None,
        exit_code: 0,
        reason: String::new(),
        message: String::new(),
        image: "img".to_owned(),
        image_ref: "sha256:1".to_owned(),
        hash: None,
        grace_seconds: Some(30),
        pre_stop: None,
        log_path: String::new(),
        termination_log: None,
        termination_policy: String::new(),
        user: None,
        stop_signal: None,
        image_mounts: BTreeMap::new(),
    }
}

/// A container that terminated with this exit code a second after its creation.
pub fn exited(name: &str, attempt: u32, code: i32) -> ContainerStatus {
    let made = container(name, attempt, ContainerState::Exited);
    ContainerStatus {
        started_at: Some(made.created_at),
        finished_at: Some(made.created_at + jiff::SignedDuration::from_secs(1)),
        exit_code: code,
        ..made
    }
}

/// A sandbox `s<attempt>` with an IP address.
pub fn sandbox(attempt: u32, state: SandboxState) -> SandboxStatus {
    SandboxStatus {
        id: SandboxId::from(format!("s{attempt}")),
        attempt,
        state,
        created_at: Timestamp::from_second(900 + i64::from(attempt)).unwrap(),
        host_network: false,
        ips: vec!["10.0.0.1".parse().unwrap()],
    }
}

/// The image of [`run`].
const IMAGE: &str = "docker.io/library/img:1";

/// Runs a pod whose only container is `c`, with its log in `c/0.log` below `logs`.
pub async fn run(fake: &FakeRuntime, pod: &PodRef, logs: Option<&Path>) -> ContainerId {
    let labels = [
        (POD_NAME_LABEL, &*pod.name),
        (POD_NAMESPACE_LABEL, &*pod.namespace),
        (POD_UID_LABEL, pod.uid.as_str()),
        (CONTAINER_NAME_LABEL, "c"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = PodSandboxMetadata {
        name: pod.name.to_string(),
        namespace: pod.namespace.to_string(),
        uid: pod.uid.to_string(),
        attempt: 0,
    };
    let sandbox_config = PodSandboxConfig {
        metadata: Some(metadata),
        labels: labels[..3].iter().cloned().collect(),
        log_directory: logs.map(|logs| logs.display().to_string()).unwrap_or_default(),
        ..PodSandboxConfig::default()
    };
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
        image: Some(ImageSpec { image: IMAGE.to_owned(), ..ImageSpec::default() }),
        labels: labels.into(),
        log_path: logs.map(|_| "c/0.log".to_owned()).unwrap_or_default(),
        ..ContainerConfig::default()
    };
    fake.add_image(IMAGE);
    let sandbox = fake.run_sandbox(sandbox_config.clone(), "").await.unwrap();
    let container = fake.create_container(&sandbox, config, sandbox_config).await.unwrap();
    fake.start_container(&container).await.unwrap();
    container
}

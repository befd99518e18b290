//! Converts messages to types. Objects without a pod's labels are not ours and are skipped; malformed ones are an error.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

use hostlet_base::{
    CONTAINER_HASH_ANNOTATION, CONTAINER_NAME_LABEL, CONTAINER_PORTS_ANNOTATION,
    CONTAINER_PRE_STOP_ANNOTATION, CONTAINER_TERMINATION_PATH_ANNOTATION,
    CONTAINER_TERMINATION_POLICY_ANNOTATION, POD_NAME_LABEL, POD_NAMESPACE_LABEL,
    POD_TERMINATION_GRACE_ANNOTATION, POD_UID_LABEL, PodRef, stop_signal_name,
};
use jiff::Timestamp;

use super::super::types::{
    Container, ContainerImage, ContainerState, ContainerStats, ContainerStatus, ImageFilesystem, ImageInfo,
    LinuxUser, RuntimeFeatures, RuntimeFilesystems, RuntimeHandler, RuntimeStatus, Sandbox, SandboxState,
    SandboxStatus, StoredPreStop, WritableLayer,
};
use super::super::{CriError, Operation, RuntimeCondition, wire};

type Map = HashMap<String, String>;

/// The pod in the labels; `None` for an object that was not created by a kubelet.
pub(in crate::cri) fn pod_of(labels: &Map) -> Option<PodRef> {
    Some(PodRef::new(
        labels.get(POD_NAMESPACE_LABEL)?,
        labels.get(POD_NAME_LABEL)?,
        labels.get(POD_UID_LABEL)?,
    ))
}

/// Converts nanoseconds since the epoch; the epoch itself if out of range.
pub(super) fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The CRI uses 0, or Go's zero time as a negative number, for "never".
fn maybe_timestamp(nanos: i64) -> Option<Timestamp> {
    (nanos > 0).then(|| timestamp(nanos))
}

pub(super) fn sandbox_state(state: i32) -> SandboxState {
    if state == wire::PodSandboxState::SandboxReady as i32 {
        SandboxState::Ready
    } else {
        SandboxState::NotReady
    }
}

pub(super) fn container_state(state: i32) -> ContainerState {
    match wire::ContainerState::try_from(state) {
        Ok(wire::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(wire::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(wire::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(wire::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

pub(in crate::cri) fn sandbox(wire: wire::PodSandbox) -> Option<Sandbox> {
    Some(Sandbox {
        pod: pod_of(&wire.labels)?,
        attempt: wire.metadata.map_or(0, |m| m.attempt),
        state: sandbox_state(wire.state),
        created_at: timestamp(wire.created_at),
        id: wire.id.into(),
    })
}

pub(in crate::cri) fn sandbox_status(wire: wire::PodSandboxStatus) -> SandboxStatus {
    let host_network = wire
        .linux
        .and_then(|l| l.namespaces)
        .and_then(|n| n.options)
        .is_some_and(|o| o.network == wire::NamespaceMode::Node as i32);
    let mut ips: Vec<IpAddr> = Vec::new();
    if let Some(network) = wire.network {
        let texts = std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|ip| ip.ip));
        // An invalid address is the network plugin's mistake. Skipping it is better than failing the pod.
        ips.extend(texts.filter_map(|text| text.parse::<IpAddr>().ok()));
    }
    SandboxStatus {
        attempt: wire.metadata.map_or(0, |m| m.attempt),
        state: sandbox_state(wire.state),
        created_at: timestamp(wire.created_at),
        host_network,
        ips,
        id: wire.id.into(),
    }
}

/// `None` for a container that does not say which one it is.
pub(in crate::cri) fn container_stats(wire: wire::ContainerStats) -> Option<ContainerStats> {
    let attributes = wire.attributes?;
    let layer = |used: wire::FilesystemUsage| {
        let filesystem =
            used.fs_id.map(|id| id.mountpoint.into()).filter(|path: &PathBuf| path.is_absolute());
        Some(WritableLayer {
            bytes: used.used_bytes?.value,
            inodes: used.inodes_used.map(|inodes| inodes.value),
            at: timestamp(used.timestamp),
            filesystem,
        })
    };
    Some(ContainerStats {
        id: attributes.id.into(),
        name: attributes.metadata?.name.into(),
        memory: wire.memory.and_then(|memory| memory.usage_bytes).map(|bytes| bytes.value),
        writable_layer: wire.writable_layer.and_then(layer),
    })
}

/// `None` for one without a path.
fn image_filesystem(wire: wire::FilesystemUsage) -> Option<ImageFilesystem> {
    Some(ImageFilesystem {
        at: timestamp(wire.timestamp),
        bytes: wire.used_bytes.map_or(0, |bytes| bytes.value),
        inodes: wire.inodes_used.map(|inodes| inodes.value),
        path: wire.fs_id.map(|id| id.mountpoint.into()).filter(|path: &PathBuf| path.is_absolute())?,
    })
}

pub(in crate::cri) fn runtime_filesystems(wire: wire::ImageFsInfoResponse) -> RuntimeFilesystems {
    let all = |wire: Vec<wire::FilesystemUsage>| wire.into_iter().filter_map(image_filesystem).collect();
    RuntimeFilesystems { images: all(wire.image_filesystems), containers: all(wire.container_filesystems) }
}

/// The image in containerd's information about a sandbox, which has no defined form.
pub(in crate::cri) fn sandbox_image(info: &Map) -> Option<String> {
    let info: serde_json::Value = serde_json::from_str(info.get("info")?).ok()?;
    Some(info.get("image")?.as_str()?.to_owned())
}

pub(in crate::cri) fn container(wire: wire::Container) -> Option<Container> {
    let pod = pod_of(&wire.labels)?;
    let name = wire.labels.get(CONTAINER_NAME_LABEL)?.as_str().into();
    Some(Container {
        pod,
        name,
        sandbox: wire.pod_sandbox_id.into(),
        attempt: wire.metadata.map_or(0, |m| m.attempt),
        state: container_state(wire.state),
        created_at: timestamp(wire.created_at),
        id: wire.id.into(),
    })
}

pub(in crate::cri) fn container_image(wire: wire::Container) -> ContainerImage {
    let name = wire.image.map(|spec| spec.image).unwrap_or_default();
    let references = [wire.image_id, wire.image_ref, name].into_iter().filter(|text| !text.is_empty());
    ContainerImage { pod: pod_of(&wire.labels), references: references.collect(), container: wire.id.into() }
}

pub(in crate::cri) fn container_status(wire: wire::ContainerStatus) -> Result<ContainerStatus, CriError> {
    let metadata = wire.metadata.unwrap_or_default();
    let name = wire.labels.get(CONTAINER_NAME_LABEL).map_or(metadata.name.as_str(), String::as_str);
    if name.is_empty() {
        return Err(CriError::Malformed {
            operation: Operation::ContainerStatus,
            message: format!("container {} has no name", wire.id),
        });
    }
    let annotation = |key: &str| wire.annotations.get(key).map(String::as_str);
    let termination_log = annotation(CONTAINER_TERMINATION_PATH_ANNOTATION)
        .and_then(|path| wire.mounts.iter().find(|m| m.container_path == path))
        .map(|m| m.host_path.clone());
    let images = wire
        .mounts
        .iter()
        .filter_map(|mount| Some((mount.container_path.clone(), mount.image.as_ref()?.image.clone())));
    Ok(ContainerStatus {
        image_mounts: images.collect(),
        name: name.into(),
        attempt: metadata.attempt,
        sandbox: None,
        state: container_state(wire.state),
        created_at: timestamp(wire.created_at),
        started_at: maybe_timestamp(wire.started_at),
        finished_at: maybe_timestamp(wire.finished_at),
        exit_code: wire.exit_code,
        hash: annotation(CONTAINER_HASH_ANNOTATION).and_then(|h| u32::from_str_radix(h, 16).ok()),
        grace_seconds: annotation(POD_TERMINATION_GRACE_ANNOTATION).and_then(|g| g.parse().ok()),
        pre_stop: annotation(CONTAINER_PRE_STOP_ANNOTATION).map(|handler| {
            let ports = annotation(CONTAINER_PORTS_ANNOTATION).unwrap_or_default().to_owned();
            Box::new(StoredPreStop { handler: handler.to_owned(), ports })
        }),
        termination_policy: annotation(CONTAINER_TERMINATION_POLICY_ANNOTATION)
            .unwrap_or_default()
            .to_owned(),
        termination_log,
        user: wire.user.and_then(|user| user.linux).map(|user| {
            let wire::LinuxContainerUser { uid, gid, supplemental_groups } = user;
            Box::new(LinuxUser { uid, gid, supplemental_groups })
        }),
        stop_signal: stop_signal_name(wire.stop_signal),
        image: wire.image.map(|i| i.image).unwrap_or_default(),
        image_ref: wire.image_ref,
        reason: wire.reason,
        message: wire.message,
        log_path: wire.log_path,
        id: wire.id.into(),
    })
}

pub(in crate::cri) fn runtime_status(wire: wire::StatusResponse) -> RuntimeStatus {
    let handler = |wire: wire::RuntimeHandler| {
        let features = wire.features.unwrap_or_default();
        RuntimeHandler {
            name: wire.name,
            recursive_read_only_mounts: features.recursive_read_only_mounts,
            user_namespaces: features.user_namespaces,
        }
    };
    let mut status = RuntimeStatus {
        handlers: wire.runtime_handlers.into_iter().map(handler).collect(),
        features: wire.features.map(|features| RuntimeFeatures {
            supplemental_groups_policy: features.supplemental_groups_policy,
        }),
        ..RuntimeStatus::default()
    };
    for condition in wire.status.into_iter().flat_map(|status| status.conditions) {
        let target = match condition.r#type.as_str() {
            "RuntimeReady" => &mut status.runtime,
            "NetworkReady" => &mut status.network,
            // Runtimes may add other conditions; a kubelet uses these two.
            _ => continue,
        };
        *target = RuntimeCondition {
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
        };
    }
    status
}

pub(in crate::cri) fn image(wire: wire::Image) -> ImageInfo {
    ImageInfo {
        id: wire.id,
        tags: wire.repo_tags,
        digests: wire.repo_digests,
        size: wire.size,
        uid: wire.uid.map(|u| u.value),
        username: wire.username,
        pinned: wire.pinned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Map {
        [
            (POD_NAMESPACE_LABEL, "ns"),
            (POD_NAME_LABEL, "web"),
            (POD_UID_LABEL, "u1"),
            (CONTAINER_NAME_LABEL, "c"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
    }

    #[test]
    fn objects_without_our_labels_are_not_ours() {
        assert!(sandbox(wire::PodSandbox { id: "x".into(), ..Default::default() }).is_none());
        assert!(container(wire::Container { id: "x".into(), ..Default::default() }).is_none());
        let ours =
            container(wire::Container { id: "x".into(), labels: labels(), ..Default::default() }).unwrap();
        assert_eq!((ours.pod.to_string().as_str(), &*ours.name), ("ns/web", "c"));
    }

    #[test]
    fn annotations_and_mounts_are_read_back() {
        let status = container_status(wire::ContainerStatus {
            id: "x".into(),
            labels: labels(),
            state: wire::ContainerState::ContainerExited as i32,
            annotations: [
                (CONTAINER_HASH_ANNOTATION, "8e45cbd0"),
                (POD_TERMINATION_GRACE_ANNOTATION, "30"),
                (CONTAINER_TERMINATION_PATH_ANNOTATION, "/dev/termination-log"),
            ]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
            mounts: vec![wire::Mount {
                container_path: "/dev/termination-log".into(),
                host_path: "/pods/t".into(),
                ..Default::default()
            }],
            finished_at: -1,
            ..Default::default()
        })
        .unwrap();
        assert_eq!(status.hash, Some(0x8e45_cbd0));
        assert_eq!(status.grace_seconds, Some(30));
        assert_eq!(status.termination_log.as_deref(), Some("/pods/t"));
        assert_eq!(status.finished_at, None);
        assert_eq!(status.state, ContainerState::Exited);
    }

    #[test]
    fn an_invalid_address_is_skipped() {
        let status = sandbox_status(wire::PodSandboxStatus {
            network: Some(wire::PodSandboxNetworkStatus {
                ip: "10.0.0.1".into(),
                additional_ips: vec![wire::PodIp { ip: "junk".into() }, wire::PodIp { ip: "fd00::1".into() }],
            }),
            ..Default::default()
        });
        assert_eq!(status.ips, vec!["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
    }
}

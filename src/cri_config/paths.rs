//! Paths of a pod's files and logs on the host. An interface: a stock kubelet that replaces hostlet uses the same. Pure.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use super::HostSettings;
use crate::pod::view::PodView;
use crate::types::PodUid;

/// A pod's directory: `<root>/pods/<uid>`.
pub fn pod_dir(uid: &str, host: &HostSettings) -> PathBuf {
    host.root_dir.join("pods").join(uid)
}

/// A pod's hosts file, which its containers have as `/etc/hosts`.
pub fn hosts_file(root: &Path, uid: &PodUid) -> PathBuf {
    root.join("pods").join(uid.as_str()).join("etc-hosts")
}

/// Directory of a container's termination logs.
pub fn container_dir(uid: &str, container: &str, host: &HostSettings) -> PathBuf {
    pod_dir(uid, host).join("containers").join(container)
}

/// Directory of a pod's logs: `<logs>/<namespace>_<name>_<uid>`.
pub fn pod_logs(pod: &Pod, host: &HostSettings) -> PathBuf {
    pod_log_dir(PodView::from(pod), host)
}

pub(super) fn pod_log_dir(pod: PodView<'_>, host: &HostSettings) -> PathBuf {
    host.pod_logs_dir.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
}

/// Path of a container's log in its pod's log directory.
pub(super) fn container_log(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}.log")
}

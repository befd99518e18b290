//! `HostletConfiguration` (`hostlet.dev/v1alpha1`): settings without a field in KubeletConfiguration.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// The `apiVersion` of the document.
pub(super) const API_VERSION: &str = "hostlet.dev/v1alpha1";
/// The `kind` of the document.
pub(super) const KIND: &str = "HostletConfiguration";

/// Path of the control socket if none is set.
pub(super) const DEFAULT_SOCKET: &str = "/run/hostlet/hostlet.sock";

/// The document. `None` means unset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(super) struct HostletConfiguration {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    /// Whether a first start takes over the pods that are in the runtime.
    pub(super) adopt_foreign_pods: Option<bool>,
    /// Share of time that all tasks may wait for memory before a pod is evicted.
    pub(super) eviction_stall_full: Option<String>,
    /// Share of time that some tasks may wait for memory before a pod is evicted.
    pub(super) eviction_stall_some: Option<String>,
    /// Directory of image archives to import.
    pub(super) image_preload_dir: Option<String>,
    /// Whether the Node has conditions that follow from the kernel's log.
    pub(super) kernel_conditions: Option<bool>,
    /// How many sandboxes and containers may start at the same time.
    pub(super) max_concurrent_starts: Option<NonZeroUsize>,
    /// Whether the ConfigMaps, Secrets and tokens of admitted pods are stored on this host, encrypted.
    pub(super) offline_objects: Option<bool>,
    /// Whether devices of DRA drivers are published in ResourceSlices.
    pub(super) publish_resource_slices: Option<bool>,
    /// Path of the daemon's control socket.
    pub(super) socket: Option<String>,
    /// Whether a stream over WebSocket needs only the verb `get`.
    pub(super) streams_need_get_only: Option<bool>,
}

impl HostletConfiguration {
    /// Sets the defaults of unset fields.
    pub(super) fn set_defaults(&mut self) {
        self.api_version = Some(API_VERSION.to_owned());
        self.kind = Some(KIND.to_owned());
        self.adopt_foreign_pods.get_or_insert(false);
        self.kernel_conditions.get_or_insert(false);
        self.max_concurrent_starts.get_or_insert(NonZeroUsize::MIN.saturating_add(2));
        self.offline_objects.get_or_insert(true);
        self.publish_resource_slices.get_or_insert(false);
        self.streams_need_get_only.get_or_insert(false);
        if self.socket.as_ref().is_none_or(String::is_empty) {
            self.socket = Some(DEFAULT_SOCKET.to_owned());
        }
    }
}

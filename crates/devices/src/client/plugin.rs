//! What is asked of a device plugin: the seam for tests of decisions.

use async_trait::async_trait;
use hostlet_proto::device_plugin::ContainerAllocateResponse;

use super::CallError;
use crate::choice::Question;
use crate::device::DeviceIds;

/// What a plugin wants to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginOptions {
    /// Before each start of a container.
    pub(crate) pre_start: bool,
    /// Which devices it prefers.
    pub(crate) preferences: bool,
}

/// The calls to one instance of a plugin.
#[async_trait]
pub(crate) trait DevicePlugin: Send + Sync {
    /// Which devices it prefers.
    async fn preferred(&self, question: &Question) -> Result<DeviceIds, CallError>;

    /// What a container needs to use these devices; `None` if the plugin gives no response for it. Idempotent for a plugin that keeps to
    /// the API.
    async fn allocate(&self, ids: &DeviceIds) -> Result<Option<ContainerAllocateResponse>, CallError>;

    /// Prepares these devices for the next start of their container.
    async fn pre_start(&self, ids: &DeviceIds) -> Result<(), CallError>;
}

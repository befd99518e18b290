//! What a kind of volumes says of itself. Everything about one kind is in its file; whoever handles volumes asks its kind, and plans with
//! the values that it returns. Pure.

use hostlet_base::causes::Group;
use hostlet_pod::objects::ObjectRef;
use k8s_openapi::api::core::v1::Volume;

use crate::model::{Context, DesiredVolume, KindDirectory, Persistent};

/// A kind of volumes, of those in the specs of pods, of PersistentVolumes, or of both.
pub(crate) trait Kind: Sync {
    /// Whether a pod's volume is of this kind.
    fn is_kind_of(&self, volume: &Volume) -> bool;

    /// Upstream's name of the plugin, a label of metrics.
    fn plugin(&self) -> &'static str;

    /// The directory of these volumes in each pod's; `None` if they have none.
    fn directory(&self) -> Option<KindDirectory>;

    /// The objects that a pod's volume of this kind refers to.
    fn references(&self, _volume: &Volume, _namespace: &str) -> Vec<ObjectRef> {
        Vec::new()
    }

    /// Whether the content of a pod's volume of this kind is on the node's disk and ends with its pod (upstream
    /// `IsLocalEphemeralVolume`).
    fn is_local_ephemeral(&self, _volume: &Volume) -> bool {
        false
    }

    /// The desired state of a pod's volume; `None` if it is of another kind.
    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume>;

    /// The desired state of a PersistentVolume; `None` if it is of another kind.
    fn desired_persistent(&self, _volume: &Persistent<'_>, _context: &Context<'_>) -> Option<DesiredVolume> {
        None
    }

    /// Whether PersistentVolumes of this kind may be used as block devices.
    fn has_devices(&self) -> bool {
        false
    }

    /// What explains the errors of these volumes, in order of precedence.
    fn rules(&self) -> Group;
}

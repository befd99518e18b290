//! Converts calls to CSI's messages, and its answers back. Pure.

use std::path::Path;

use hostlet_proto::csi;
use hostlet_proto::csi::node_service_capability::Type;
use hostlet_proto::csi::node_service_capability::rpc;
use hostlet_proto::csi::volume_capability::access_mode::Mode;
use hostlet_proto::csi::volume_capability::{AccessMode as WireMode, AccessType, BlockVolume, MountVolume};
use hostlet_proto::csi::volume_usage::Unit;

use crate::{
    AccessMode, Capability, ExpandCall, Form, NodeCapabilities, NodeInfo, PublishCall, StageCall, Usage,
    UsageUnit, VolumeStats,
};

/// `NodeStageVolumeRequest`, for a driver that can do this.
pub(super) fn stage(call: &StageCall, can: NodeCapabilities) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: call.handle.clone(),
        publish_context: call.publish_context.clone().into_iter().collect(),
        staging_target_path: text(&call.staging),
        volume_capability: Some(capability(&call.capability, can)),
        secrets: call.secrets.0.clone().into_iter().collect(),
        volume_context: call.context.clone().into_iter().collect(),
    }
}

/// `NodePublishVolumeRequest`, for a driver that can do this.
pub(super) fn publish(call: &PublishCall, can: NodeCapabilities) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: call.handle.clone(),
        publish_context: call.publish_context.clone().into_iter().collect(),
        staging_target_path: call.staging.as_deref().map(text).unwrap_or_default(),
        target_path: text(&call.target),
        volume_capability: Some(capability(&call.capability, can)),
        readonly: call.read_only,
        secrets: call.secrets.0.clone().into_iter().collect(),
        volume_context: call.context.clone().into_iter().collect(),
    }
}

/// `NodeExpandVolumeRequest`, for a driver that can do this.
pub(super) fn expand(call: &ExpandCall, can: NodeCapabilities) -> csi::NodeExpandVolumeRequest {
    let required_bytes = i64::try_from(call.size).unwrap_or(i64::MAX);
    csi::NodeExpandVolumeRequest {
        volume_id: call.handle.clone(),
        volume_path: text(&call.path),
        capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
        staging_target_path: call.staging.as_deref().map(text).unwrap_or_default(),
        volume_capability: Some(capability(&call.capability, can)),
        secrets: call.secrets.0.clone().into_iter().collect(),
    }
}

/// A path in a message.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn capability(capability: &Capability, can: NodeCapabilities) -> csi::VolumeCapability {
    let access_type = match &capability.form {
        Form::Filesystem { fs_type, options } => AccessType::Mount(MountVolume {
            fs_type: fs_type.clone(),
            mount_flags: options.clone(),
            volume_mount_group: capability.group.map(|group| group.to_string()).unwrap_or_default(),
        }),
        Form::Block => AccessType::Block(BlockVolume {}),
    };
    let mode = mode(capability.access_mode, can.single_node_multi_writer).into();
    csi::VolumeCapability { access_mode: Some(WireMode { mode }), access_type: Some(access_type) }
}

/// The access mode of a volume (upstream `asCSIAccessModeV1` and `asSingleNodeMultiWriterCapableCSIAccessModeV1`). A driver that knows
/// no difference between one pod and several on a node gets the same for both.
fn mode(mode: AccessMode, knows_pods: bool) -> Mode {
    match (mode, knows_pods) {
        (AccessMode::ReadWriteOnce, false) | (AccessMode::ReadWriteOncePod, false) => Mode::SingleNodeWriter,
        (AccessMode::ReadWriteOnce, true) => Mode::SingleNodeMultiWriter,
        (AccessMode::ReadWriteOncePod, true) => Mode::SingleNodeSingleWriter,
        (AccessMode::ReadOnlyMany, false | true) => Mode::MultiNodeReaderOnly,
        (AccessMode::ReadWriteMany, false | true) => Mode::MultiNodeMultiWriter,
    }
}

/// What a driver can do. What hostlet does not know is left out.
pub(super) fn capabilities(answer: &csi::NodeGetCapabilitiesResponse) -> NodeCapabilities {
    let mut can = NodeCapabilities::default();
    let types = answer.capabilities.iter().filter_map(|capability| capability.r#type.as_ref());
    for Type::Rpc(rpc) in types {
        match rpc::Type::try_from(rpc.r#type) {
            Ok(rpc::Type::StageUnstageVolume) => can.stage = true,
            Ok(rpc::Type::GetVolumeStats) => can.stats = true,
            Ok(rpc::Type::ExpandVolume) => can.expand = true,
            Ok(rpc::Type::SingleNodeMultiWriter) => can.single_node_multi_writer = true,
            Ok(rpc::Type::VolumeMountGroup) => can.mount_group = true,
            Ok(rpc::Type::GetVolumeHealth) => can.health = true,
            Ok(rpc::Type::Unknown | rpc::Type::GetStorageHealth) | Err(_) => {}
        }
    }
    can
}

/// What a driver says of this node. Limits that are none are left out, as upstream does.
pub(super) fn info(answer: csi::NodeGetInfoResponse) -> NodeInfo {
    NodeInfo {
        node_id: answer.node_id,
        max_volumes: Some(answer.max_volumes_per_node).filter(|most| *most > 0),
        topology: answer.accessible_topology.unwrap_or_default().segments.into_iter().collect(),
    }
}

/// The size that a driver states, bytes.
pub(super) fn size(answer: csi::NodeExpandVolumeResponse) -> Option<u64> {
    u64::try_from(answer.capacity_bytes).ok().filter(|size| *size > 0)
}

/// A volume's usage. Units that hostlet does not know are left out.
pub(super) fn stats(answer: &csi::NodeGetVolumeStatsResponse) -> VolumeStats {
    let usage = answer.usage.iter().filter_map(|usage| {
        let unit = match Unit::try_from(usage.unit) {
            Ok(Unit::Bytes) => UsageUnit::Bytes,
            Ok(Unit::Inodes) => UsageUnit::Inodes,
            Ok(Unit::Unknown) | Err(_) => return None,
        };
        Some(Usage { unit, available: usage.available, total: usage.total, used: usage.used })
    });
    VolumeStats { usage: usage.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_are_upstreams() {
        use AccessMode::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};
        let all = [ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod];
        assert_eq!(
            all.map(|each| mode(each, false)),
            [
                Mode::SingleNodeWriter,
                Mode::MultiNodeReaderOnly,
                Mode::MultiNodeMultiWriter,
                Mode::SingleNodeWriter
            ]
        );
        assert_eq!(
            all.map(|each| mode(each, true)),
            [
                Mode::SingleNodeMultiWriter,
                Mode::MultiNodeReaderOnly,
                Mode::MultiNodeMultiWriter,
                Mode::SingleNodeSingleWriter
            ]
        );
    }

    #[test]
    fn no_limit_is_no_limit() {
        let answer = |most| csi::NodeGetInfoResponse { max_volumes_per_node: most, ..Default::default() };
        assert_eq!([-1, 0, 8].map(|most| info(answer(most)).max_volumes), [None, None, Some(8)]);
    }

    #[test]
    fn unknown_capabilities_and_units_are_left_out() {
        let rpc = |number| csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(csi::node_service_capability::Rpc { r#type: number })),
        };
        let nothing = csi::NodeServiceCapability { r#type: None };
        let answer =
            csi::NodeGetCapabilitiesResponse { capabilities: vec![rpc(0), rpc(99), nothing, rpc(6)] };
        let expected = NodeCapabilities { mount_group: true, ..NodeCapabilities::default() };
        assert_eq!(capabilities(&answer), expected);
        let usage = |unit| csi::VolumeUsage { available: 1, total: 3, used: 2, unit };
        let answer = csi::NodeGetVolumeStatsResponse { usage: vec![usage(0), usage(1), usage(2), usage(7)] };
        let units: Vec<UsageUnit> = stats(&answer).usage.iter().map(|usage| usage.unit).collect();
        assert_eq!(units, [UsageUnit::Bytes, UsageUnit::Inodes]);
    }
}

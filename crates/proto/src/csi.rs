//! CSI 1.12 (`csi.v1`) as Kubernetes 1.37 has it, with the health of volumes: types, clients and servers, generated from `proto/csi.proto` of
//! container-storage-interface/spec.

#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all, reason = "generated")]

use std::fmt::{Debug, Formatter, Result};

tonic::include_proto!("csi.v1");

/// Prints none of the fields: among them are secrets, and with a volume's context tokens.
macro_rules! print_no_field_of {
    ($($message:ident),* $(,)?) => {
        $(impl Debug for $message {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                f.debug_struct(stringify!($message)).finish_non_exhaustive()
            }
        })*
    };
}

print_no_field_of!(
    CreateVolumeRequest,
    DeleteVolumeRequest,
    ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest,
    ValidateVolumeCapabilitiesRequest,
    ControllerListVolumeHealthRequest,
    ControllerGetVolumeHealthRequest,
    ControllerModifyVolumeRequest,
    CreateSnapshotRequest,
    DeleteSnapshotRequest,
    ListSnapshotsRequest,
    GetSnapshotRequest,
    ControllerExpandVolumeRequest,
    NodeStageVolumeRequest,
    NodePublishVolumeRequest,
    NodeGetStorageHealthRequest,
    NodeExpandVolumeRequest,
    CreateVolumeGroupSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotRequest,
    GetMetadataAllocatedRequest,
    GetMetadataDeltaRequest,
);

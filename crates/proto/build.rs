//! Generates the types, clients and servers of the CRI and of CSI. Needs `protoc`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        // A fake runtime implements what it needs; the rest answers Unimplemented.
        .generate_default_stubs(true)
        // Their links and lists are not rustdoc's; the definitions are next to this file.
        .disable_comments(["."])
        // Their secrets must not be printed: `cri.rs` and `csi.rs` do it without them.
        .skip_debug(["runtime.v1.AuthConfig"])
        .skip_debug(CSI_WITH_SECRETS.map(|message| format!("csi.v1.{message}")))
        .compile_protos(&["proto/cri.proto", "proto/csi.proto"], &["proto"])
}

/// The messages with a field that is marked as `csi_secret`.
const CSI_WITH_SECRETS: [&str; 22] = [
    "CreateVolumeRequest",
    "DeleteVolumeRequest",
    "ControllerPublishVolumeRequest",
    "ControllerUnpublishVolumeRequest",
    "ValidateVolumeCapabilitiesRequest",
    "ControllerListVolumeHealthRequest",
    "ControllerGetVolumeHealthRequest",
    "ControllerModifyVolumeRequest",
    "CreateSnapshotRequest",
    "DeleteSnapshotRequest",
    "ListSnapshotsRequest",
    "GetSnapshotRequest",
    "ControllerExpandVolumeRequest",
    "NodeStageVolumeRequest",
    "NodePublishVolumeRequest",
    "NodeGetStorageHealthRequest",
    "NodeExpandVolumeRequest",
    "CreateVolumeGroupSnapshotRequest",
    "DeleteVolumeGroupSnapshotRequest",
    "GetVolumeGroupSnapshotRequest",
    "GetMetadataAllocatedRequest",
    "GetMetadataDeltaRequest",
];

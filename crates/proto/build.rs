//! Generates the types, clients and servers of the CRI, of CSI, and of what device plugins and local agents use. Needs `protoc`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use prost_types::FieldDescriptorProto;
use prost_types::field_descriptor_proto::{Label, Type};
use tonic_prost_build::{Config, FileDescriptorSet};

/// Definitions of `k8s.io/kubelet` whose packages are called alike, so that each has a folder of its own.
const KUBELET_APIS: [&str; 4] = ["deviceplugin", "podresources", "podresources_v1alpha1", "pods"];

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for api in KUBELET_APIS {
        let folder = out.join(api);
        fs::create_dir_all(&folder)?;
        tonic_prost_build::configure()
            .out_dir(folder)
            .generate_default_stubs(true)
            .disable_comments(["."])
            // What is recorded of a response is the same each time.
            .btree_map(".")
            .compile_protos(&[format!("proto/{api}.proto")], &["proto".to_owned()])?;
    }
    let pod = Config::new().load_fds(&["proto/pod.proto"], &[Path::new("proto")])?;
    fs::write(out.join("pod_shapes.rs"), shapes(&pod))?;
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

/// The messages of a file as a table (`pod_shapes.rs`).
fn shapes(files: &FileDescriptorSet) -> String {
    let messages: Vec<_> = files.file.iter().flat_map(|file| &file.message_type).collect();
    let numbers: BTreeMap<&str, usize> =
        messages.iter().enumerate().map(|(number, message)| (message.name(), number)).collect();
    let mut table = format!(
        "/// The number of `Pod` among the messages.\npub const POD: usize = {};\n\n/// The messages.\npub static MESSAGES: [&[Field]; {}] = [\n",
        numbers["Pod"],
        messages.len()
    );
    for message in &messages {
        table.push_str("&[\n");
        for field in &message.field {
            // A map is a repeated message that is nested in its own.
            let entry = message
                .nested_type
                .iter()
                .find(|entry| field.type_name().ends_with(&format!(".{}", entry.name())));
            let kind = |of: &FieldDescriptorProto| kind(of, &numbers);
            let (count, kind) = match entry {
                Some(entry) => ("Map", kind(&entry.field[1])),
                None if field.label() == Label::Repeated => ("Many", kind(field)),
                None => ("One", kind(field)),
            };
            let _ = writeln!(
                table,
                "Field {{ name: {:?}, number: {}, count: Count::{count}, kind: Kind::{kind} }},",
                field.name(),
                field.number()
            );
        }
        table.push_str("],\n");
    }
    table.push_str("];\n");
    table
}

/// The kind of a field, as its variant in the table.
fn kind(field: &FieldDescriptorProto, numbers: &BTreeMap<&str, usize>) -> String {
    match field.r#type() {
        Type::String => "Text".to_owned(),
        Type::Bytes => "Bytes".to_owned(),
        Type::Bool => "Bool".to_owned(),
        Type::Int32 | Type::Int64 => "Integer".to_owned(),
        Type::Message => match field.type_name().rsplit('.').next().unwrap_or_default() {
            // The JSON of these is no object.
            name @ ("Time" | "MicroTime" | "Quantity" | "IntOrString" | "FieldsV1") => name.to_owned(),
            name => format!("Message({})", numbers[name]),
        },
        other => unreachable!("a field of the type {other:?} in pod.proto"),
    }
}

//! Turns the bytes of a manifest into a static pod and the objects beside it: decoded, with identity and defaults, validated. No I/O.

use std::sync::Arc;

use hostlet_pod::ManifestOrigin;
use hostlet_pod::defaults::set_defaults;
use hostlet_pod::objects::FileObject;
use hostlet_pod::pod_ref;
use hostlet_pod::validation::{FieldError, ObjectReferences, unsupported, validate_static};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::context::ManifestContext;
use super::decode::{DecodeError, Decoded, Documents, Mistakes, decode_manifest};
use super::file_objects::file_object;
use super::identity::{Identity, PodSource};
use super::state::StaticPod;

/// Why a manifest is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file contains something else.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An object is invalid.
    #[error("{errors}")]
    Invalid {
        /// `namespace/name` of the pod, if the file has one, as far as known.
        pod: Option<String>,
        /// All mistakes, by line.
        errors: Mistakes,
    },
}

impl ManifestError {
    /// `namespace/name` of the pod, if the file could be decoded and has one.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Decode(_) => None,
            Self::Invalid { pod, .. } => pod.as_deref(),
        }
    }
}

/// The content of a manifest.
#[derive(Debug, PartialEq)]
pub struct Manifest {
    /// The static pod; `None` if it defines only objects.
    pub pod: Option<StaticPod>,
    /// The objects beside it.
    pub objects: Vec<FileObject>,
    /// What was ignored and why, one line for each object.
    pub ignored: Option<String>,
}

/// Reads a manifest with these bytes. `seen` is when this content was first read.
pub fn read_manifest(
    bytes: &[u8],
    context: &ManifestContext<'_>,
    seen: Timestamp,
) -> Result<Manifest, ManifestError> {
    let Documents { pod, objects: decoded } = decode_manifest(bytes)?;
    let (mut mistakes, mut objects, mut ignored) = (Mistakes::default(), Vec::new(), Vec::new());
    let (pod, name) = match pod {
        Some(decoded) => {
            let (pod, more) = static_pod(decoded, context, seen);
            mistakes.extend(more);
            let name = pod_ref(&pod.pod).to_string();
            (Some(pod), Some(name))
        }
        None => (None, None),
    };
    for object in decoded {
        if !context.is_alone {
            ignored.push(object.ignored());
            continue;
        }
        match file_object(object, context) {
            Ok(object) => objects.push(object),
            Err(more) => mistakes.extend(more),
        }
    }
    if !mistakes.is_empty() {
        return Err(ManifestError::Invalid { pod: name, errors: mistakes });
    }
    Ok(Manifest { pod, objects, ignored: Some(ignored.join("\n")).filter(|text| !text.is_empty()) })
}

/// The pod with its identity and defaults, and its mistakes.
fn static_pod(
    decoded: Decoded<Pod>,
    context: &ManifestContext<'_>,
    seen: Timestamp,
) -> (StaticPod, Mistakes) {
    let Decoded { object: pod, document, unknown } = decoded;
    let origin = ManifestOrigin::File(context.file.to_owned());
    let identity = Identity { source: PodSource::File(context.file), node_name: context.node_name, seen };
    let (pod, errors) = completed(pod, origin, identity, context.is_alone);
    let invalid = errors.into_iter().map(|error| (error.path.clone(), error.to_string()));
    (pod, Mistakes::locate(&document, unknown.into_iter().chain(invalid)))
}

/// A decoded pod with its identity and defaults, and what is invalid in it.
pub(super) fn completed(
    mut pod: Pod,
    origin: ManifestOrigin,
    identity: Identity<'_>,
    is_alone: bool,
) -> (StaticPod, Vec<FieldError>) {
    identity.assign(&mut pod);
    set_defaults(&mut pod);
    let references = if is_alone { ObjectReferences::FromFiles } else { ObjectReferences::Forbidden };
    let errors = validate_static(&pod, references);
    let unsupported = unsupported(&pod);
    (StaticPod { pod: Arc::new(pod), origin, unsupported }, errors)
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;

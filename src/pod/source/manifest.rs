//! One manifest file's bytes to the pod that is to run: decoded, named, with its defaults, validated. No I/O.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::decode::{DecodeError, decode_pod};
use super::identity;
use super::state::StaticPod;
use crate::pod::defaults::set_defaults;
use crate::pod::validation::{FieldError, unsupported, validate_static};
use crate::types::PodRef;

/// Why a manifest gives no pod.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file does not hold one pod.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The pod is one that the API server would refuse.
    #[error("{errors}")]
    Invalid {
        /// `namespace/name`, as far as the pod says.
        pod: String,
        /// Everything wrong with it.
        errors: FieldErrors,
    },
}

impl ManifestError {
    /// `namespace/name` of the pod, where the file got as far as naming one.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Decode(_) => None,
            Self::Invalid { pod, .. } => Some(pod),
        }
    }
}

/// Field errors, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

/// Reads the pod that `file` with these bytes defines on the node `node_name`. `seen` is when this content first showed.
pub fn read_manifest(
    bytes: &[u8],
    file: &Path,
    node_name: &str,
    seen: Timestamp,
) -> Result<StaticPod, ManifestError> {
    let mut pod = decode_pod(bytes)?;
    identity::assign(&mut pod, file, node_name, seen);
    set_defaults(&mut pod);
    let errors = validate_static(&pod);
    if !errors.is_empty() {
        let pod = pod_ref(&pod).to_string();
        return Err(ManifestError::Invalid { pod, errors: FieldErrors(errors) });
    }
    let unsupported = unsupported(&pod);
    Ok(StaticPod { pod: Arc::new(pod), file: file.to_owned(), unsupported })
}

/// Which pod this is.
pub(super) fn pod_ref(pod: &Pod) -> PodRef {
    let metadata = &pod.metadata;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    PodRef::new(&text(&metadata.namespace), &text(&metadata.name), &text(&metadata.uid))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;

    use super::{ManifestError, read_manifest};

    fn read(text: &str) -> Result<super::StaticPod, ManifestError> {
        read_manifest(text.as_bytes(), Path::new("/m/web.yaml"), "node1", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_manifest_becomes_a_complete_pod() {
        let read = read(
            "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: a, tty: true}],
             nodeSelector: {a: b}}}",
        )
        .unwrap();
        assert_eq!(read.pod.metadata.name.as_deref(), Some("web-node1"));
        assert_eq!(read.pod.spec.as_ref().unwrap().restart_policy.as_deref(), Some("Always"));
        assert_eq!(read.unsupported[0].path, "spec.nodeSelector");
    }

    #[test]
    fn an_invalid_pod_is_named_with_all_that_is_wrong() {
        let error =
            read("{apiVersion: v1, kind: Pod, metadata: {name: Web}, spec: {containers: [{name: c}]}}")
                .unwrap_err();
        assert_eq!(error.pod(), Some("default/Web-node1"));
        let message = error.to_string();
        assert_eq!(message.lines().count(), 2, "{message}");
        assert!(message.ends_with("spec.containers[0].image: Required value"), "{message}");

        let error =
            read("{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: a}]}}").unwrap_err();
        assert_eq!(error.to_string(), "metadata.name: Required value");
    }
}

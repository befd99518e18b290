//! The values of variables that come from files in volumes (`fileKeyRef`), read when their container starts. A file is in the hands of the
//! pod's containers: it is read by the threads for such paths, and never through a link out of its volume.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hostlet_base::{PodUid, error_chain};
use hostlet_pod::AdmittedPod;
use hostlet_volume::{PodVolumes, ReadError};
use k8s_openapi::api::core::v1::{Container, FileKeySelector};

use super::context::WorkerContext;
use crate::cri_config::{EnvFileError, FileValue, env_file_value};

/// Most bytes of a file. Upstream limits only its lines.
const MOST_BYTES: u64 = 1 << 20;

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
enum FileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file is invalid.
    #[error(transparent)]
    Parse(#[from] EnvFileError),
}

/// The values of the container's variables from files, by the name of the variable.
pub(super) async fn file_values(
    context: &WorkerContext,
    pod: &AdmittedPod,
    container: &Container,
    volumes: &PodVolumes,
) -> BTreeMap<String, FileValue> {
    let mut values = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        let source = variable.value_from.as_ref().and_then(|source| source.file_key_ref.as_ref());
        let Some(source) = source else { continue };
        let Some(volume) = volumes.mounted.get(&source.volume_name) else {
            values.insert(variable.name.clone(), FileValue::NoVolume(source.volume_name.clone()));
            continue;
        };
        let value = match read(context, &pod.reference.uid, &volume.host_path, source).await {
            Ok(Some(value)) => FileValue::Found(value),
            Ok(None) => FileValue::Missing(volume.host_path.join(&source.path)),
            Err(error) => {
                let (pod, container) = (&pod.reference, &container.name);
                let (variable, error) = (&variable.name, error_chain(&error));
                tracing::warn!(%pod, uid = %pod.uid, container, variable, error, "cannot read an environment file");
                FileValue::Invalid
            }
        };
        values.insert(variable.name.clone(), value);
    }
    values
}

async fn read(
    context: &WorkerContext,
    uid: &PodUid,
    volume: &Path,
    source: &FileKeySelector,
) -> Result<Option<String>, FileError> {
    // Relative to the volume, also with a leading slash, as upstream.
    let path = PathBuf::from(source.path.trim_start_matches('/'));
    let content = context.host.volumes.read_file(uid, volume, path, MOST_BYTES).await?;
    Ok(env_file_value(&content, &source.key)?)
}

//! Defaults of one volume: `emptyDir` if it has no source, file modes, API versions, pull policies.

use hostlet_base::json;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Volume};
use serde_json::Value;

use super::containers::default_pull_policy;
use super::or_text;

/// Default mode of files in a volume.
const FILE_MODE: i32 = 0o644;
/// Default expiration of a projected service account token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

pub(super) fn set(volume: &mut Volume) {
    if !has_source(volume) {
        volume.empty_dir.get_or_insert_default();
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(image) = &mut volume.image {
        let policy = default_pull_policy(image.reference.as_deref().unwrap_or_default());
        or_text(&mut image.pull_policy, policy);
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(FILE_MODE);
        set_files(downward.items.as_mut());
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        for source in projected.sources.iter_mut().flatten() {
            if let Some(downward) = &mut source.downward_api {
                set_files(downward.items.as_mut());
            }
            if let Some(token) = &mut source.service_account_token {
                token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
            }
        }
    }
}

/// Whether the volume has a source: on the wire, a volume is its name and one more key.
fn has_source(volume: &Volume) -> bool {
    match json::to_value(volume) {
        Ok(Value::Object(object)) => object.len() > 1,
        Ok(_) | Err(_) => true,
    }
}

fn set_files(files: Option<&mut Vec<DownwardAPIVolumeFile>>) {
    for file in files.into_iter().flatten() {
        if let Some(field) = &mut file.field_ref {
            or_text(&mut field.api_version, "v1");
        }
    }
}

//! Keys of an object as files: all of them, or the selected ones. Pure.

use k8s_openapi::api::core::v1::KeyToPath;

use crate::objects::Object;
use crate::volume::error::ContentError;
use crate::volume::files::{File, Files, clean_path};

/// Mode of files without one. The API server and the defaults of static pods normally set it.
pub(super) const DEFAULT_MODE: i32 = 0o644;

/// Permissions of a file, from the API's number.
pub(super) fn mode(own: Option<i32>, default: Option<i32>) -> u32 {
    // The API allows no more than these bits.
    own.or(default).unwrap_or(DEFAULT_MODE).unsigned_abs() & 0o777
}

/// The files for an object's keys. `what` names the keys in messages. Missing keys are left out if `optional`.
pub(super) fn keyed_files(
    object: &Object,
    items: Option<&[KeyToPath]>,
    default_mode: Option<i32>,
    optional: bool,
    what: &'static str,
) -> Result<Files, ContentError> {
    let file = |data: &[u8], own| File { data: data.to_vec(), mode: mode(own, default_mode), uid: None };
    let mut files = Files::new();
    match items.unwrap_or_default() {
        [] => {
            for (key, data) in object.entries() {
                files.insert(clean_path(key)?, file(data, None));
            }
        }
        items => {
            for item in items {
                match object.get(&item.key) {
                    Some(data) => drop(files.insert(clean_path(&item.path)?, file(data, item.mode))),
                    None if optional => {}
                    None => return Err(ContentError::MissingKey { what, key: item.key.clone() }),
                }
            }
        }
    }
    Ok(files)
}

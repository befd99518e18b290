//! Keys of an object as files: all of them, or the selected ones. Pure.

use hostlet_base::causes::{Rule, rule};
use hostlet_pod::objects::Object;
use k8s_openapi::api::core::v1::KeyToPath;

use crate::error::ContentError;
use crate::files::{File, Files, clean_path};

/// Mode of files without one. The API server and the defaults of static pods normally set it.
pub(super) const DEFAULT_MODE: i32 = 0o644;

/// Causes why an object of a volume, or a key of it, is not available.
pub(super) const RULES: &[Rule] = &[
    rule(
        &["for volume", "there is no api server"],
        "a volume refers to an object of a cluster, and this node has no API server",
        "remove the volume, or use a hostPath with the same files",
    ),
    rule(
        &["timed out waiting for the"],
        "the API server has not returned the object that a volume refers to",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["for volume", "cannot read"],
        "the API server failed to return an object that a volume refers to",
        "check that this node can reach the API server; hostlet retries automatically",
    ),
    rule(
        &["for volume", "is forbidden"],
        "the API server does not allow this node to read an object that a volume refers to",
        "check the pod's namespace, the object's name, and the node's permissions; hostlet retries automatically",
    ),
    rule(
        &["references non-existent"],
        "a volume refers to a key that its ConfigMap or Secret does not have",
        "add the key to the object, correct items in spec.volumes, or set optional: true; hostlet retries \
         automatically",
    ),
];

/// What a volume's files have if they have none of their own, from `defaultMode` and `defaultUser`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) mode: Option<i32>,
    pub(super) user: Option<i64>,
}

impl Defaults {
    /// A file with its own mode and owner (`user`, KEP-5936), or these.
    pub(super) fn file(self, data: Vec<u8>, mode: Option<i32>, user: Option<i64>) -> File {
        File { data, mode: self.mode(mode), uid: self.uid(user) }
    }

    /// Permissions of a file.
    pub(super) fn mode(self, own: Option<i32>) -> u32 {
        // The API allows no more than these bits.
        own.or(self.mode).unwrap_or(DEFAULT_MODE).unsigned_abs() & 0o777
    }

    /// Owner of a file.
    pub(super) fn uid(self, own: Option<i64>) -> Option<u32> {
        own.or(self.user).and_then(|user| u32::try_from(user).ok())
    }
}

/// The files for an object's keys. `what` begins the message of a missing key. Missing keys are left out if `optional`.
pub(super) fn keyed_files(
    object: &Object,
    items: Option<&[KeyToPath]>,
    defaults: Defaults,
    optional: bool,
    what: &'static str,
) -> Result<Files, ContentError> {
    let mut files = Files::new();
    match items.unwrap_or_default() {
        [] => {
            for (key, data) in object.entries() {
                files.insert(clean_path(key)?, defaults.file(data.to_vec(), None, None));
            }
        }
        items => {
            for item in items {
                match object.get(&item.key) {
                    Some(data) => {
                        let file = defaults.file(data.to_vec(), item.mode, item.user);
                        files.insert(clean_path(&item.path)?, file);
                    }
                    None if optional => {}
                    None => return Err(ContentError::MissingKey { what, key: item.key.clone() }),
                }
            }
        }
    }
    Ok(files)
}

//! The desired state of volumes whose files the daemon writes. Pure.

use crate::error::ContentError;
use crate::files::{Files, check_tree};
use crate::layout::group_file_mode;
use crate::model::{Content, Context, Desired, DesiredVolume, KindDirectory, Store};

/// A volume with these files, or with those that it has if they are not available.
pub(super) fn written(
    directory: KindDirectory,
    store: Store,
    files: Result<Files, ContentError>,
    context: &Context<'_>,
) -> DesiredVolume {
    let files = files.and_then(|files| check_tree(&files).map(|()| files).map_err(Into::into));
    let content = match files {
        Ok(files) => Content::Ours(with_group(files, context.group())),
        Err(error) => Content::Unknown(error),
    };
    DesiredVolume::Own(Desired { directory, store, mode: None, group: context.group(), content })
}

fn with_group(mut files: Files, group: Option<u32>) -> Files {
    if group.is_some() {
        for file in files.values_mut() {
            file.mode = group_file_mode(file.mode, true);
        }
    }
    files
}

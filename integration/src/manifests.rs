//! Changes manifests that a daemon watches.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes a manifest atomically, by renaming a hidden file.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let hidden = directory.join(format!(".{name}.new"));
    let file = directory.join(name);
    fs::write(&hidden, text).with_context(|| format!("writing {}", hidden.display()))?;
    fs::rename(&hidden, &file).with_context(|| format!("renaming {} into place", file.display()))
}

/// Removes a manifest.
pub(crate) fn remove(directory: &Path, name: &str) -> Result<()> {
    let file = directory.join(name);
    fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))
}

//! Kubernetes' own tests: their programs, and stand-ins for their images.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::lib;

/// An image that the tests name.
#[derive(Debug)]
pub struct E2eImage {
    /// Its OCI layout.
    pub layout: PathBuf,
    /// Its name in its registry.
    pub name: String,
    /// Its tag.
    pub tag: String,
}

/// The path of a program of Kubernetes or its tests, which is built.
pub fn kubernetes_program(name: &str) -> Result<PathBuf> {
    let path = lib("kubernetes_program", [name]).with_context(|| format!("{name} is not built"))?;
    Ok(PathBuf::from(path.trim()))
}

/// Whether the kernel lets this process, and so the nodes' runtimes, lower OOM scores (CAP_SYS_RESOURCE).
pub fn may_lower_oom_scores() -> bool {
    lib("has_capability", ["24"]).is_ok()
}

/// Makes stand-ins for the images of the tests in a directory.
pub fn make_e2e_images(directory: &Path) -> Result<Vec<E2eImage>> {
    let e2e = kubernetes_program("e2e.test")?;
    let made = lib("make_e2e_images", [directory, &e2e])?;
    let image = |line: &str| {
        let (name, tag) = line.split_once(' ')?;
        Some(E2eImage { layout: directory.join(name).join(tag), name: name.to_owned(), tag: tag.to_owned() })
    };
    made.lines().map(|line| image(line).with_context(|| format!("no image: {line}"))).collect()
}

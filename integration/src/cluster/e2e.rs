//! Kubernetes' own tests: their programs, and a registry with stand-ins for their images.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::real::{CriSandbox, Distribution, RealHost};
use crate::shell::lib;

/// The registry of their images, which no test host has to reach.
const REGISTRY: &str = "registry.k8s.io";

/// The path of a program of Kubernetes or its tests, which is built.
pub fn kubernetes_program(name: &str) -> Result<PathBuf> {
    let path = lib("kubernetes_program", [name]).with_context(|| format!("{name} is not built"))?;
    Ok(PathBuf::from(path.trim()))
}

/// Whether the kernel lets this process, and so the nodes' runtimes, lower OOM scores (CAP_SYS_RESOURCE).
pub(crate) fn may_lower_oom_scores() -> bool {
    lib("has_capability", ["24"]).is_ok()
}

/// Stand-ins for the images that the tests name, in a registry on a host. Dropping it stops the registry.
#[derive(Debug)]
pub struct E2eImages {
    /// Their names in the registry of the originals.
    references: Vec<String>,
    /// Held open.
    _registry: Distribution,
}

impl E2eImages {
    /// Makes them and serves them to the host's containerd in place of their registry.
    pub async fn serve(host: &RealHost) -> Result<Self> {
        let dir = tempfile::tempdir().context("a directory for images")?;
        let made = lib("make_e2e_images", [dir.path()])?;
        let registry = Distribution::start_empty(host).await?;
        registry.stand_in_for(host, REGISTRY)?;
        let mut references = Vec::new();
        for line in made.lines() {
            let (name, tag) = line.split_once(' ').with_context(|| format!("no image: {line}"))?;
            registry.push(host, &dir.path().join(name).join(tag), name, tag)?;
            references.push(format!("{REGISTRY}/{name}:{tag}"));
        }
        Ok(Self { references, _registry: registry })
    }

    /// Has the host pull all of them, for tests that do not.
    pub async fn pull(&self, host: &RealHost) -> Result<()> {
        let sandbox = CriSandbox::new("images", host.id(), Path::new(""));
        for reference in &self.references {
            host.cri().pull(&sandbox, reference).await?;
        }
        Ok(())
    }
}

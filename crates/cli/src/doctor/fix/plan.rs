//! Which fixes a host needs. Pure.

use std::fmt;
use std::path::{Path, PathBuf};

use super::network::bridge;
use crate::doctor::facts::{DisabledCri, Facts, NetworkFacts, RuntimeAnswer};

/// One fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Enable the CRI in containerd's configuration, and restart containerd.
    EnableCri { file: PathBuf },
    /// Link network plugins into the directory where the runtime looks for them.
    LinkPlugins {
        /// The directory where they are.
        from: PathBuf,
        /// The runtime's directory.
        to: PathBuf,
        names: Vec<String>,
    },
    /// Write a network configuration for a bridge.
    WriteNetwork {
        file: PathBuf,
        /// Its content.
        text: String,
        /// The subnet of the pods.
        subnet: String,
    },
    /// Import the image of sandboxes.
    ImportPause {
        archive: PathBuf,
        /// The name that the runtime wants.
        image: String,
    },
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnableCri { file } => write!(
                f,
                "remove the CRI from disabled_plugins in {} (the file as it was stays in {}), and restart containerd",
                file.display(),
                backup(file).display()
            ),
            Self::LinkPlugins { from, to, .. } => write!(
                f,
                "link the network plugins of {} into {}, where the runtime looks for them",
                from.display(),
                to.display()
            ),
            Self::WriteNetwork { file, subnet, .. } => {
                write!(f, "write {}: a bridge for pods, with the subnet {subnet}", file.display())
            }
            Self::ImportPause { archive, image } => {
                write!(f, "import {} as {image}", archive.display())
            }
        }
    }
}

/// Where the file as it was is kept.
pub(super) fn backup(file: &Path) -> PathBuf {
    file.with_added_extension("before-hostlet")
}

/// The fixes for what is known now. After the CRI was enabled, more may be known.
pub(crate) fn plan(facts: &Facts, archive: &Path) -> Vec<Fix> {
    let mut fixes = Vec::new();
    if let (RuntimeAnswer::NoCri | RuntimeAnswer::NoSocket, Some((file, Ok(DisabledCri::Yes)))) =
        (&facts.runtime.answer, &facts.runtime.containerd_file)
    {
        fixes.push(Fix::EnableCri { file: file.clone() });
    }
    let RuntimeAnswer::Cri(settings) = &facts.runtime.answer else { return fixes };
    fixes.extend(link_plugins(facts));
    // In a cluster, its network plugin writes the configuration.
    if facts.config.cluster.is_none()
        && let Ok(configurations) = &facts.network.configurations
        && configurations.is_empty()
        && let Ok(plugins) = &facts.network.plugins
        && let Some((text, subnet)) = bridge(plugins, &facts.network.routes)
    {
        let file = facts.network.conf_dir.join("10-hostlet.conflist");
        fixes.push(Fix::WriteNetwork { file, text, subnet });
    }
    if let Some((image, false)) = &settings.pause_image
        && settings.version.runtime_name == "containerd"
    {
        fixes.push(Fix::ImportPause { archive: archive.to_owned(), image: image.clone() });
    }
    fixes
}

/// Docker's containerd looks in `/opt/cni/bin`, and Debian's and Fedora's plugins are elsewhere.
fn link_plugins(facts: &Facts) -> Option<Fix> {
    let network = &facts.network;
    let wanted: Vec<&str> = match network.configurations.as_deref() {
        Ok([(_, Ok(plugins)), ..]) => plugins.iter().map(String::as_str).collect(),
        Ok([]) if facts.config.cluster.is_none() => NetworkFacts::BRIDGE.to_vec(),
        Ok(_) | Err(_) => return None,
    };
    let missing = network.missing(wanted)?;
    if missing.is_empty() || !network.are_elsewhere(&missing) {
        return None;
    }
    let (from, available) = network.elsewhere.as_ref()?;
    let names = available.difference(network.plugins.as_ref().ok()?).cloned().collect();
    Some(Fix::LinkPlugins { from: from.clone(), to: network.bin_dirs.first()?.clone(), names })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

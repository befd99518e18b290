//! Which daemon's host a command is about, for commands that work without the daemon: its flags.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::config::KubeletFlags;

/// The configuration that packages install.
const PACKAGED: &str = "/etc/hostlet/config.yaml";

/// The daemon's flags that name its files.
#[derive(Clone, Debug, Default, Args)]
pub struct HostArgs {
    /// The daemon's configuration [default: /etc/hostlet/config.yaml, if it exists]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The daemon's directory of drop-ins
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub config_dir: Option<PathBuf>,
    /// The daemon's kubeconfig
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// The directory of the daemon's files [default: /var/lib/kubelet]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root_dir: Option<PathBuf>,
}

impl HostArgs {
    /// The daemon's flags.
    pub(super) fn flags(&self) -> KubeletFlags {
        let mut flags = KubeletFlags::default();
        let packaged = || Some(PathBuf::from(PACKAGED)).filter(|file| Path::exists(file));
        flags.process.config = self.config.clone().or_else(packaged);
        flags.process.config_dir.clone_from(&self.config_dir);
        flags.process.kubeconfig.clone_from(&self.kubeconfig);
        if let Some(root) = &self.root_dir {
            flags.process.root_dir.clone_from(root);
        }
        flags
    }
}

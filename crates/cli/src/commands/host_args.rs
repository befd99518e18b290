//! Which daemon's host a command is about, for commands that work without the daemon: its flags.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use hostlet_config::KubeletFlags;

use super::service_flags::{ServiceFlagsError, service_flags};

/// The daemon's flags that name its files.
#[derive(Clone, Debug, Default, Args)]
pub struct HostArgs {
    /// The daemon's configuration [default: that of the packaged service, with its flags]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The daemon's directory of drop-ins
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub config_dir: Option<PathBuf>,
    /// The daemon's kubeconfig
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// The directory of the daemon's files [default: that of the service, or /var/lib/kubelet]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root_dir: Option<PathBuf>,
}

impl HostArgs {
    /// The daemon's flags: those of the packaged service, unless another configuration is named.
    pub(super) fn flags(&self) -> Result<KubeletFlags, ServiceFlagsError> {
        let mut flags = match &self.config {
            Some(_) => KubeletFlags::default(),
            None => service_flags(Path::new("/"))?,
        };
        let process = &mut flags.process;
        process.config = self.config.clone().or(process.config.take());
        process.config_dir = self.config_dir.clone().or(process.config_dir.take());
        process.kubeconfig = self.kubeconfig.clone().or(process.kubeconfig.take());
        if let Some(root) = &self.root_dir {
            process.root_dir.clone_from(root);
        }
        Ok(flags)
    }
}

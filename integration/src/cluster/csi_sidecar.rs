//! The sidecars of a CSI driver, which serve claims, attachments and sizes of the cluster with the driver's controller service.

use anyhow::{Context, Result};

use super::control_plane::Cluster;
use crate::csi::CsiDriver;
use crate::plugin_process::PluginProcess;
use crate::shell::lib;

/// A sidecar process beside the control plane. Dropping it kills the process.
#[derive(Debug)]
pub struct CsiSidecar {
    process: PluginProcess,
}

impl CsiSidecar {
    /// Starts `attacher`, `provisioner` or `resizer` for a driver that runs; builds its program if necessary.
    pub fn start(cluster: &Cluster, which: &str, driver: &CsiDriver) -> Result<Self> {
        let program = lib("csi_sidecar", [which])?;
        let name = format!("{which}-{}", driver.name());
        let mut process = PluginProcess::new(&name, cluster.log(&name));
        let mut command = cluster.command(program.trim());
        command.arg(format!("--kubeconfig={}", cluster.inner_kubeconfig().display()));
        command.arg(format!("--csi-address={}", driver.endpoint().display()));
        // By default a second, which doubles.
        command.arg("--retry-interval-start=200ms");
        if which == "provisioner" {
            command.args(["--default-fstype=ext4", "--extra-create-metadata"]);
        }
        process.start(&mut command).with_context(|| format!("starting the {which}"))?;
        Ok(Self { process })
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

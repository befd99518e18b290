//! A DRA driver of today on a node: a Go program on upstream's helper for authors of drivers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::node::Node;
use super::tenant::Tenant;
use crate::plugin_process::PluginProcess;
use crate::shell::lib;

/// Where container runtimes look for CDI files.
const CDI: &str = "/var/run/cdi";

/// A driver process. Dropping it kills the process and removes its CDI files; its sockets remain.
#[derive(Debug)]
pub struct DraPlugin {
    name: String,
    node: String,
    program: PathBuf,
    kubeconfig: PathBuf,
    root: PathBuf,
    work: PathBuf,
    log: PathBuf,
    is_beta: bool,
    process: PluginProcess,
}

impl DraPlugin {
    /// A driver on a tenant's node, which does not run yet; builds its program if necessary. With `is_beta` it serves `v1beta1` only.
    pub fn new(tenant: &Tenant, node: &Node, name: &str, is_beta: bool) -> Result<Self> {
        let root = node.root_dir();
        let work = root.with_file_name(format!("{name}.work"));
        fs::create_dir_all(&work).context("creating a driver's directory")?;
        let log = root.with_file_name(format!("{name}.log"));
        Ok(Self {
            name: name.to_owned(),
            node: node.name().to_owned(),
            program: PathBuf::from(lib("dra_plugin", [""; 0])?.trim()),
            kubeconfig: tenant.cluster().kubeconfig(),
            root,
            work,
            process: PluginProcess::new(name, log.clone()),
            log,
            is_beta,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts it, or starts it again.
    pub fn start(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("--name").arg(&self.name).arg("--node").arg(&self.node);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--root").arg(&self.root);
        command.arg("--work").arg(&self.work).arg("--cdi").arg(CDI);
        if self.is_beta {
            command.arg("--beta");
        }
        self.process.start(&mut command)
    }

    /// Kills it with SIGKILL. Its sockets remain, as after a crash.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Ends it with SIGTERM: it deregisters.
    pub fn stop(&mut self) -> Result<()> {
        self.process.terminate()
    }

    /// Has it fail `prepare` or `unprepare` with this text, or succeed again.
    pub fn fails(&self, operation: &str, text: Option<&str>) -> Result<()> {
        let file = self.work.join(format!("fail-{operation}"));
        match text {
            Some(text) => fs::write(file, text).context("writing what fails"),
            None => fs::remove_file(file).context("removing what fails"),
        }
    }

    /// Has it report this health of all its devices: `Unhealthy too hot`.
    pub fn reports_health(&self, health: &str) -> Result<()> {
        // Renamed, so that the driver never reads a part.
        let (new, file) = (self.work.join("health.new"), self.work.join("health"));
        fs::write(&new, health).context("writing the health of devices")?;
        fs::rename(new, file).context("renaming the health of devices")
    }

    /// How often it was asked to `prepare` or `unprepare` this claim.
    pub fn calls(&self, operation: &str, claim: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.matches(&format!(" {operation} {claim}: ")).count()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for DraPlugin {
    fn drop(&mut self) {
        for file in fs::read_dir(CDI).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with(&self.name) {
                // A test that failed left it; nothing else uses a file of this name.
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

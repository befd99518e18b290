//! A DRA driver of Kubernetes 1.30 on a node: a Go program on the modules of that version.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::node::Node;
use crate::plugin_process::PluginProcess;
use crate::shell::lib;

/// A driver process. Dropping it kills the process; its sockets remain.
#[derive(Debug)]
pub struct DraDriver {
    name: String,
    program: PathBuf,
    registration: PathBuf,
    endpoint: PathBuf,
    devices: PathBuf,
    log: PathBuf,
    process: PluginProcess,
}

impl DraDriver {
    /// A driver on a node, which does not run yet; builds its program if necessary. `devices` are resource models of
    /// `k8s.io/api/resource/v1alpha2`.
    pub fn new(node: &Node, name: &str, devices: &Value) -> Result<Self> {
        let root = node.root_dir();
        let log = root.with_file_name(format!("{name}.log"));
        let driver = Self {
            name: name.to_owned(),
            program: PathBuf::from(lib("dra_driver", [""; 0])?.trim()),
            registration: root.join("plugins_registry").join(format!("{name}-reg.sock")),
            endpoint: root.join("plugins").join(name).join("dra.sock"),
            devices: root.with_file_name(format!("{name}.json")),
            process: PluginProcess::new(name, log.clone()),
            log,
        };
        driver.say(devices)?;
        Ok(driver)
    }

    /// Changes what it reports.
    pub fn say(&self, devices: &Value) -> Result<()> {
        // Renamed, so that the driver never reads a part.
        let new = self.devices.with_extension("new");
        fs::write(&new, devices.to_string()).context("writing a driver's devices")?;
        fs::rename(&new, &self.devices).context("renaming a driver's devices")
    }

    /// Starts it, or starts it again.
    pub fn start(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("--name").arg(&self.name).arg("--registration").arg(&self.registration);
        command.arg("--endpoint").arg(&self.endpoint).arg("--devices").arg(&self.devices);
        self.process.start(&mut command)
    }

    /// Kills it with SIGKILL. Its sockets remain, as after a crash.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Removes its registration socket, as when its pod is deleted.
    pub fn uninstall(&mut self) -> Result<()> {
        self.kill()?;
        fs::remove_file(&self.registration).context("removing a registration socket")
    }

    /// Number of streams that were opened.
    pub fn streams(&self) -> usize {
        fs::read_to_string(&self.log).unwrap_or_default().matches("the stream is open").count()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

//! A device plugin for tests: the program `device_plugin` (`src/bin/device_plugin.rs`) as a process, and its script.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::plugin_process::PluginProcess;
use crate::shell::profile_dir;

/// How a plugin is started.
#[derive(Clone, Debug)]
pub struct DevicePluginOptions {
    /// The program: that of [`DevicePluginProcess::built`].
    pub program: PathBuf,
    /// The resource, such as `example.com/gpu`.
    pub resource: String,
    /// The daemon's directory, which has `device-plugins`.
    pub root: PathBuf,
    /// Where its log and its script are.
    pub work: PathBuf,
}

/// A plugin process. Dropping it kills the process; its socket remains.
#[derive(Debug)]
pub struct DevicePluginProcess {
    options: DevicePluginOptions,
    name: String,
    process: PluginProcess,
}

impl DevicePluginProcess {
    /// The program, which cargo builds for tests of this package by itself.
    pub fn built() -> Result<PathBuf> {
        let program = profile_dir()?.join("device_plugin");
        ensure!(program.exists(), "{} is not built: cargo build --bin device_plugin", program.display());
        Ok(program)
    }

    /// A plugin that does not run yet, with this script: `{"devices": {"gpu-0": [0]}, "unhealthy": [], "preStart": false, "preferred": [],
    /// "cdi": false, "failures": {"Allocate": "no"}, "hangs": [], "silent": false}`, of which everything has a default.
    pub fn new(options: DevicePluginOptions, script: &Value) -> Result<Self> {
        let name = options.resource.replace('/', "_");
        let process = PluginProcess::new(&name, options.work.join(format!("{name}.log")));
        let plugin = Self { options, name, process };
        plugin.write(script)?;
        Ok(plugin)
    }

    fn script(&self) -> PathBuf {
        self.options.work.join(format!("{}.script", self.name))
    }

    fn write(&self, script: &Value) -> Result<()> {
        fs::write(self.script(), script.to_string()).context("writing a plugin's script")
    }

    /// Starts it, or starts it again.
    pub fn start(&mut self) -> Result<()> {
        let options = &self.options;
        let mut command = Command::new(&options.program);
        command
            .arg("--dir")
            .arg(options.root.join("device-plugins"))
            .arg("--resource")
            .arg(&options.resource);
        command.arg("--socket").arg(format!("{}.sock", self.name)).arg("--script").arg(self.script());
        self.process.start(&mut command)
    }

    /// Makes it do what this script says from now on.
    pub fn does(&self, script: &Value) -> Result<()> {
        self.write(script)?;
        self.process.reload()
    }

    /// Kills it with SIGKILL. Its socket remains, as after a crash.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Ends it as it ends when its pod is deleted: its socket is removed.
    pub fn stop(&mut self) -> Result<()> {
        self.process.terminate()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

//! The driver as a process on a host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::faults::Faults;
use crate::plugin_process::PluginProcess;

/// How a driver is started.
#[derive(Clone, Debug)]
pub struct CsiDriverOptions {
    /// The program: `env!("CARGO_BIN_EXE_csi_driver")` of a test.
    pub program: PathBuf,
    /// The driver's name.
    pub name: String,
    /// The identifier of the node.
    pub node_id: String,
    /// The daemon's directory, which has the registry of plugins.
    pub root: PathBuf,
    /// Where volumes live; the drivers of all nodes share it.
    pub volumes: PathBuf,
    /// Where its logs and faults are.
    pub work: PathBuf,
    /// Further arguments: `--image`, `--no-attach`, `--without CAPABILITY`, `--max-volumes`, `--topology`.
    pub arguments: Vec<String>,
}

/// A driver process. Dropping it kills the process; its sockets remain.
#[derive(Debug)]
pub struct CsiDriver {
    options: CsiDriverOptions,
    process: PluginProcess,
}

impl CsiDriver {
    /// A driver that does not run yet.
    pub fn new(options: CsiDriverOptions) -> Self {
        let log = options.work.join(format!("{}.log", options.name));
        Self { process: PluginProcess::new(&options.name, log), options }
    }

    fn registration(&self) -> PathBuf {
        let name = &self.options.name;
        self.options.root.join("plugins_registry").join(format!("{name}-reg.sock"))
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.options.work.join(format!("{}.{extension}", self.options.name))
    }

    /// The socket of its services.
    pub fn endpoint(&self) -> PathBuf {
        self.options.root.join("plugins").join(&self.options.name).join("csi.sock")
    }

    /// What goes wrong in its calls.
    pub fn faults(&self) -> Faults {
        Faults::at(&self.file("faults"))
    }

    /// Starts it, or starts it again.
    pub fn start(&mut self) -> Result<()> {
        let options = &self.options;
        let mut command = Command::new(&options.program);
        command.arg("--name").arg(&options.name).arg("--node-id").arg(&options.node_id);
        command.arg("--endpoint").arg(self.endpoint()).arg("--registration").arg(self.registration());
        command.arg("--volumes").arg(&options.volumes).arg("--faults").arg(self.file("faults"));
        command.arg("--journal").arg(self.file("calls")).args(&options.arguments);
        self.process.start(&mut command)
    }

    /// Kills it with SIGKILL. Its sockets remain, as after a crash.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Ends it as it ends when its pod is deleted: its sockets are removed.
    pub fn stop(&mut self) -> Result<()> {
        self.process.terminate()
    }

    /// Its calls, oldest first: `{"call": "NodeStageVolume", "volume": …}` when one begins, and the same with `code` when it ends.
    pub fn calls(&self) -> Result<Vec<Value>> {
        let text = match fs::read_to_string(self.file("calls")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            other => other.context("reading a driver's calls")?,
        };
        // The last line may not be complete yet.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// What broke the specification.
    pub fn violations(&self) -> Result<Vec<String>> {
        let violation = |call: Value| call.get("violation")?.as_str().map(str::to_owned);
        Ok(self.calls()?.into_iter().filter_map(violation).collect())
    }

    /// Where the volumes live.
    pub fn volumes(&self) -> &Path {
        &self.options.volumes
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

//! The driver as a process on a host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::faults::Faults;
use crate::plugin_process::PluginProcess;
use crate::shell::{lib, profile_dir};

/// How a driver is started.
#[derive(Clone, Debug)]
pub struct CsiDriverOptions {
    /// The program: `env!("CARGO_BIN_EXE_csi_driver")` of a test, else [`CsiDriver::built`].
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
    /// Registers the driver in its place, which kubelets other than hostlet need: [`csi_registrar`].
    pub registrar: Option<PathBuf>,
}

/// The path of the program that registers drivers; builds it with Go if necessary.
pub fn csi_registrar() -> Result<PathBuf> {
    Ok(PathBuf::from(lib("csi_registrar", [""; 0])?.trim()))
}

/// A driver process. Dropping it kills the process; its sockets remain.
#[derive(Debug)]
pub struct CsiDriver {
    options: CsiDriverOptions,
    process: PluginProcess,
    registrar: PluginProcess,
}

impl CsiDriver {
    /// The program, which cargo builds for tests of this package by itself.
    pub fn built() -> Result<PathBuf> {
        let program = profile_dir()?.join("csi_driver");
        ensure!(program.exists(), "{} is not built: cargo build --bin csi_driver", program.display());
        Ok(program)
    }

    /// A driver that does not run yet.
    pub fn new(options: CsiDriverOptions) -> Self {
        let process = |kind: &str| {
            PluginProcess::new(&options.name, options.work.join(format!("{}{kind}.log", options.name)))
        };
        Self { process: process(""), registrar: process("-registrar"), options }
    }

    fn registration(&self) -> PathBuf {
        let name = &self.options.name;
        self.options.root.join("plugins_registry").join(format!("{name}-reg.sock"))
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.options.work.join(format!("{}.{extension}", self.options.name))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.options.name
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
        command.arg("--node-id").arg(&options.node_id);
        command.arg("--volumes").arg(&options.volumes).arg("--faults").arg(self.file("faults"));
        command.arg("--journal").arg(self.file("calls")).args(&options.arguments);
        let mut registrar = options.registrar.as_ref().map(Command::new);
        let registers = registrar.as_mut().unwrap_or(&mut command);
        registers.arg("--registration").arg(self.registration());
        for command in [Some(&mut command), registrar.as_mut()].into_iter().flatten() {
            command.arg("--name").arg(&options.name).arg("--endpoint").arg(self.endpoint());
        }
        self.process.start(&mut command)?;
        registrar.map_or(Ok(()), |mut registrar| self.registrar.start(&mut registrar))
    }

    /// Kills it with SIGKILL. Its sockets remain, as after a crash.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.registrar.kill()
    }

    /// Ends it as it ends when its pod is deleted: its sockets are removed.
    pub fn stop(&mut self) -> Result<()> {
        self.registrar.terminate()?;
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

//! The daemon as a child process, used only through what a person has: its flags, files, signals and subcommands.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::host::Dirs;
use super::netns::Netns;
use super::shell::{integration_dir, profile_dir, run, tail, text};
use crate::wait::{Look, wait_for};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running hostlet. Dropping it kills the daemon, not the pods.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    program: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Daemon {
    pub(super) async fn start(dirs: &Dirs, netns: &Netns, extra: &str) -> Result<Self> {
        let program = program()?;
        let config = dirs.state.join("config.yaml");
        fs::write(&config, configuration(dirs, extra))
            .with_context(|| format!("writing {}", config.display()))?;
        let root_dir = dirs.state.join("kubelet");
        fs::create_dir_all(&root_dir).with_context(|| format!("creating {}", root_dir.display()))?;
        let log = dirs.state.join("hostlet.log");
        let stderr = File::options().create(true).append(true).open(&log);
        let stderr = stderr.with_context(|| format!("opening {}", log.display()))?;
        let child = netns
            .command(&program.to_string_lossy())
            .arg("--config")
            .arg(&config)
            .arg("--root-dir")
            .arg(&root_dir)
            .args(["--hostname-override", "node1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .context("starting hostlet")?;
        let mut daemon = Self { child, program, socket: control_socket(dirs), log };
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        wait_for("hostlet answers", START_TIMEOUT, async || {
            if let Some(status) = self.child.try_wait().context("looking after hostlet")? {
                return Ok(Look::Done(Err(anyhow!("hostlet has ended ({status}):\n{}", tail(&self.log)))));
            }
            Ok(match self.pods() {
                Ok(_) => Look::Done(Ok(())),
                Err(error) => Look::NotYet(format!("{error:#}\n{}", tail(&self.log))),
            })
        })
        .await?
    }

    /// The pods as `hostlet pods -o json` shows them.
    pub fn pods(&self) -> Result<Vec<Pod>> {
        let json = self.cli(&["pods", "-o", "json"])?;
        let list: List<Pod> =
            serde_json::from_str(&json).with_context(|| format!("not a PodList: {json}"))?;
        Ok(list.items)
    }

    /// What a subcommand prints; an error if it ends with another exit code than 0.
    pub fn cli(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        run(command.args(args).arg("--socket").arg(&self.socket))
    }

    /// The daemon's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the daemons of this host have logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends the daemon as systemd does, with SIGTERM, and waits for its end.
    pub async fn stop(mut self) -> Result<ExitStatus> {
        let pid = i32::try_from(self.child.id()).context("a pid out of range")?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("sending SIGTERM to hostlet")?;
        wait_for("hostlet ends on SIGTERM", STOP_TIMEOUT, async || {
            let ended = self.child.try_wait().context("looking after hostlet")?;
            Ok(ended.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Done))
        })
        .await
    }

    /// Ends the daemon as a crash does, with SIGKILL.
    pub fn kill(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.child.kill().context("killing hostlet")?;
        self.child.wait().context("waiting for hostlet's end")?;
        Ok(())
    }
}

impl Drop for Daemon {
    #[allow(
        clippy::print_stderr,
        reason = "a failed test shows the daemon's log; a failed kill is no secret"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("hostlet logged last ({}):\n{}", self.log.display(), tail(&self.log));
        }
        if let Err(error) = self.end() {
            eprintln!("hostlet is not ended: {error:#}");
        }
    }
}

fn control_socket(dirs: &Dirs) -> PathBuf {
    dirs.run.join("hostlet.sock")
}

fn configuration(dirs: &Dirs, extra: &str) -> String {
    let Dirs { id, state, .. } = dirs;
    let runtime = dirs.containerd_socket();
    let (runtime, state, manifests) = (runtime.display(), state.display(), dirs.manifests());
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{runtime}
staticPodPath: {manifests}
podLogsDir: {state}/logs
cgroupDriver: cgroupfs
cgroupRoot: /{id}
enableServer: false
healthzPort: 0
failCgroupV1: false
failSwapOn: false
{extra}
---
apiVersion: hostlet.dev/v1alpha1
kind: HostletConfiguration
socket: {socket}
",
        manifests = manifests.display(),
        socket = control_socket(dirs).display(),
    )
}

/// The daemon's program: `HOSTLET_BIN` if set; else what cargo builds now, when cargo runs this test; else what it built
/// beside this test.
fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("HOSTLET_BIN") {
        return Ok(program.into());
    }
    let program = profile_dir()?.join("hostlet");
    if let Some(cargo) = std::env::var_os("CARGO") {
        build(Path::new(&cargo), &program)?;
    }
    if !program.exists() {
        bail!("no {}: build it with `cargo build --bin hostlet`, or set HOSTLET_BIN", program.display());
    }
    Ok(program)
}

/// Builds the daemon: `cargo test` of this package alone does not, and an old daemon would be tested.
fn build(cargo: &Path, program: &Path) -> Result<()> {
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "--package", "hostlet", "--bin", "hostlet"]);
    if program.parent().and_then(Path::file_name).is_some_and(|profile| profile == "release") {
        command.arg("--release");
    }
    let output = command.current_dir(integration_dir()).output().context("running cargo")?;
    text(&output).context("building hostlet")?;
    Ok(())
}

//! The daemon as a child process, used only through its public interface: flags, files, signals and subcommands.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;

use crate::shell::{integration_dir, profile_dir, run, tail, text};
use crate::wait::{Look, wait_for};

const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The environment of a daemon.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// Its directory for configuration, root and log, kept across daemons.
    pub(crate) state: &'a Path,
    /// The node's name.
    pub(crate) node: &'a str,
    /// The runtime's socket.
    pub(crate) runtime: &'a Path,
    /// The control socket.
    pub(crate) socket: &'a Path,
    /// The manifest directory.
    pub(crate) manifests: &'a Path,
    /// The pods' log directory.
    pub(crate) logs: &'a Path,
    /// The kubeconfig of its cluster; `None` for a standalone host.
    pub(crate) kubeconfig: Option<&'a Path>,
    /// YAML of further `KubeletConfiguration` fields.
    pub(crate) extra: &'a str,
    /// YAML of further `HostletConfiguration` fields.
    pub(crate) hostlet: &'a str,
    /// Further flags.
    pub(crate) flags: &'a [String],
}

impl Setup<'_> {
    fn configuration(&self) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{runtime}
staticPodPath: {manifests}
podLogsDir: {logs}
enableServer: false
healthzPort: 0
failCgroupV1: false
failSwapOn: false
{chains}{image_gc}{thresholds}{extra}
---
apiVersion: hostlet.dev/v1alpha1
kind: HostletConfiguration
socket: {socket}
imagePreloadDir: {state}/archives
{hostlet}
",
            state = self.state.display(),
            runtime = self.runtime.display(),
            manifests = self.manifests.display(),
            logs = self.logs.display(),
            // The host's tables stay as they are.
            chains = match self.extra.contains("makeIPTablesUtilChains") {
                true => "",
                false => "makeIPTablesUtilChains: false\n",
            },
            // How full the disk of the machine is must not decide what a test has.
            image_gc = match self.extra.contains("imageGC") {
                true => "",
                false => "imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 99\n",
            },
            // A machine that runs tests may be nearly full.
            thresholds = match self.extra.contains("evictionHard") {
                true => "",
                false =>
                    "evictionHard: {memory.available: 50Mi, nodefs.available: 50Mi, imagefs.available: 50Mi}\n",
            },
            extra = self.extra,
            socket = self.socket.display(),
            hostlet = self.hostlet,
        )
    }

    /// Writes the daemon's files and adds their paths to the command `daemon`.
    fn arrange(&self, daemon: &mut Command) -> Result<()> {
        let (config, text) = (self.state.join("config.yaml"), self.configuration());
        // A daemon that is started as before needs no space for it on a disk that may be full.
        if fs::read_to_string(&config).ok().as_ref() != Some(&text) {
            fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
        }
        let root_dir = self.state.join("kubelet");
        fs::create_dir_all(&root_dir).with_context(|| format!("creating {}", root_dir.display()))?;
        daemon.arg("--config").arg(&config).arg("--root-dir").arg(&root_dir);
        daemon.args(["--hostname-override", self.node]);
        if let Some(kubeconfig) = self.kubeconfig {
            daemon.arg("--kubeconfig").arg(kubeconfig);
        }
        daemon.args(self.flags);
        Ok(())
    }
}

/// A running hostlet. Dropping it kills the daemon, not the pods.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    program: PathBuf,
    node: String,
    socket: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// Starts the daemon. `command` creates the command for a program in the daemon's environment; it must exec the program, so
    /// that the spawned process gets signals.
    pub(crate) fn launch(setup: &Setup<'_>, command: impl FnOnce(&Path) -> Command) -> Result<Self> {
        let program = program()?;
        let mut command = command(&program);
        setup.arrange(&mut command)?;
        let log = setup.state.join("hostlet.log");
        let stderr = File::options().create(true).append(true).open(&log);
        let stderr = stderr.with_context(|| format!("opening {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .context("starting hostlet")?;
        let (node, socket) = (setup.node.to_owned(), setup.socket.to_owned());
        Ok(Self { child, program, node, socket, log })
    }

    /// Waits until the daemon responds; fails at once if it has exited.
    pub async fn wait_until_it_answers(&mut self) -> Result<()> {
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

    /// Fails if the daemon has exited by itself.
    pub fn check_it_runs(&mut self) -> Result<()> {
        match self.child.try_wait().context("looking after hostlet")? {
            Some(status) => bail!("hostlet has ended ({status}):\n{}", tail(&self.log)),
            None => Ok(()),
        }
    }

    /// Waits until the daemon has exited by itself.
    pub async fn wait_until_it_ends(&mut self, timeout: Duration) -> Result<ExitStatus> {
        wait_for("hostlet ends by itself", timeout, async || {
            let ended = self.child.try_wait().context("looking after hostlet")?;
            Ok(ended.map_or_else(|| Look::NotYet(tail(&self.log)), Look::Done))
        })
        .await
    }

    /// The pods as `hostlet pods -o json` shows them.
    pub fn pods(&self) -> Result<Vec<Pod>> {
        let json = self.cli(&["pods", "-o", "json"])?;
        let list: List<Pod> =
            serde_json::from_str(&json).with_context(|| format!("not a PodList: {json}"))?;
        Ok(list.items)
    }

    /// The pod of the manifest `name`, in any namespace. A static pod's name ends with the node's.
    pub fn pod(&self, name: &str) -> Result<Option<Pod>> {
        let name = format!("{name}-{}", self.node);
        Ok(self.pods()?.into_iter().find(|pod| pod.metadata.name.as_ref() == Some(&name)))
    }

    /// Waits until the pod of the manifest `name` satisfies `wanted`.
    pub async fn wait_for_pod(
        &self,
        name: &str,
        timeout: Duration,
        wanted: impl Fn(&Pod) -> bool,
    ) -> Result<Pod> {
        self.wait_for_api_pod(&format!("{name}-{}", self.node), timeout, wanted).await
    }

    /// The same for a pod of the API server, which has only its name.
    pub async fn wait_for_api_pod(
        &self,
        name: &str,
        timeout: Duration,
        wanted: impl Fn(&Pod) -> bool,
    ) -> Result<Pod> {
        wait_for(&format!("the pod {name}"), timeout, async || {
            let shown = self.pods()?.into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name));
            Ok(match shown {
                Some(pod) if wanted(&pod) => Look::Done(pod),
                Some(pod) => Look::NotYet(serde_json::to_string(&pod.status)?),
                None => Look::NotYet("no such pod".to_owned()),
            })
        })
        .await
    }

    /// Runs a subcommand and returns its output; an error unless it exits with 0.
    pub fn cli(&self, args: &[&str]) -> Result<String> {
        run(&mut self.command(args))
    }

    /// A subcommand for this daemon.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--socket").arg(&self.socket);
        command
    }

    /// The control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The program that runs.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The daemon's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The log of this host's daemons.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Stops the daemon like systemd, with SIGTERM, and waits for its exit.
    pub async fn stop(mut self) -> Result<ExitStatus> {
        let pid = i32::try_from(self.child.id()).context("a pid out of range")?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("sending SIGTERM to hostlet")?;
        wait_for("hostlet ends on SIGTERM", STOP_TIMEOUT, async || {
            let ended = self.child.try_wait().context("looking after hostlet")?;
            Ok(ended.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Done))
        })
        .await
    }

    /// Kills the daemon with SIGKILL.
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

/// The daemon's program, also used for subcommands: `HOSTLET_BIN` if set; else the one that cargo builds now, if cargo runs
/// this test; else the one that it built with this test.
pub fn program() -> Result<PathBuf> {
    static FOUND: Mutex<Option<PathBuf>> = Mutex::new(None);
    // Held while cargo builds: other tests of this process need the result.
    let mut found = FOUND.lock();
    if let Some(program) = &*found {
        return Ok(program.clone());
    }
    let program = find_program()?;
    *found = Some(program.clone());
    Ok(program)
}

fn find_program() -> Result<PathBuf> {
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

/// Builds the daemon: `cargo test` of this package alone does not, so an outdated daemon would be tested.
fn build(cargo: &Path, program: &Path) -> Result<()> {
    let mut command = Command::new(cargo);
    // A test of hostlet's own package needs its program, built with the features that this test has been built with: cargo
    // has all dependencies already.
    command.args(["test", "--workspace", "--locked", "--quiet", "--no-run", "--test", "program"]);
    if program.parent().and_then(Path::file_name).is_some_and(|profile| profile == "release") {
        command.arg("--release");
    }
    let output = command.current_dir(integration_dir()).output().context("running cargo")?;
    text(&output).context("building hostlet")?;
    Ok(())
}

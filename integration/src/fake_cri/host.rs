//! One host: a fake runtime, and directories for a daemon on it. The names of the node and its pods are unique, so that
//! parallel tests do not conflict in the one directory they share, that of log links.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_host::MountTable;
use hostlet_runtime::cri::fake::FakeRuntime;
use jiff::Timestamp;
use nix::mount::{MntFlags, umount2};
use tempfile::TempDir;

use super::FakeCri;
use crate::daemon::{Daemon, Setup, program};
use crate::fake_api::FakeApiServer;
use crate::manifests;

/// The directory in which a kubelet links container logs; it cannot be configured.
const LOG_LINKS: &str = "/var/log/containers";

/// How long a daemon may take that ends by itself.
const END: Duration = Duration::from_secs(120);

/// Distinguishes the hosts of one test process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A fake runtime and a manifest directory. Dropping it removes everything it created; drop its daemons first.
#[derive(Debug)]
pub struct FakeHost {
    node: String,
    directory: TempDir,
    /// Variables of its daemons' environment.
    environment: Vec<(&'static str, String)>,
    /// Its daemons' `/etc`, if not the machine's.
    etc: Option<PathBuf>,
    /// The runtime, which tests crash, resume and script.
    pub cri: FakeCri,
}

/// How a daemon is started.
#[derive(Clone, Copy, Default)]
struct Launch<'a> {
    /// Its kubeconfig, if it is a node of a cluster.
    kubeconfig: Option<&'a Path>,
    /// YAML of further `KubeletConfiguration` fields.
    extra: &'a str,
    /// YAML of further `HostletConfiguration` fields.
    hostlet: &'a str,
    flags: &'a [String],
    /// Variables of its environment.
    variables: &'a [(&'a str, &'a str)],
}

impl FakeHost {
    /// Creates a host whose runtime responds.
    pub fn start() -> Result<Self> {
        Self::named(format!("fake-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The same with this name of the node, for one test at a time.
    pub fn named(node: String) -> Result<Self> {
        // The daemon compares the times that the runtime reports with its own clock.
        let cri = FakeCri::start(FakeRuntime::starting_at(Timestamp::now()))?;
        let directory = tempfile::tempdir().context("making a directory for a host")?;
        let host = Self { node, directory, environment: Vec::new(), etc: None, cri };
        for dir in [host.manifests(), host.logs()] {
            fs::create_dir(&dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        Ok(host)
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The in-memory runtime.
    pub fn runtime(&self) -> &FakeRuntime {
        self.cri.runtime()
    }

    /// A directory for the files of a test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The manifest directory.
    pub fn manifests(&self) -> PathBuf {
        self.directory().join("manifests")
    }

    /// The pods' log directory.
    pub fn logs(&self) -> PathBuf {
        self.directory().join("logs")
    }

    /// The daemon's control socket.
    pub fn socket(&self) -> PathBuf {
        self.directory().join("hostlet.sock")
    }

    /// Sets a variable of the environment of daemons that start from now on.
    pub fn set_variable(&mut self, name: &'static str, value: String) {
        self.environment.push((name, value));
    }

    /// Gives daemons that start from now on an `/etc` of their own. Returns its path.
    pub fn make_private_etc(&mut self) -> Result<PathBuf> {
        let etc = self.directory().join("etc");
        fs::create_dir(&etc).with_context(|| format!("creating {}", etc.display()))?;
        for name in ["hosts", "passwd", "group", "resolv.conf"] {
            let from = Path::new("/etc").join(name);
            if from.exists() {
                fs::copy(&from, etc.join(name)).with_context(|| format!("copying {}", from.display()))?;
            }
        }
        self.etc = Some(etc.clone());
        Ok(etc)
    }

    /// Writes a manifest atomically.
    pub fn write_manifest(&self, name: &str, text: &str) -> Result<()> {
        manifests::write(&self.manifests(), name, text)
    }

    /// Removes a manifest.
    pub fn remove_manifest(&self, name: &str) -> Result<()> {
        manifests::remove(&self.manifests(), name)
    }

    /// Starts the daemon without cgroups and waits until it responds. `extra` is YAML of further `KubeletConfiguration`
    /// fields.
    pub async fn start_hostlet(&self, extra: &str) -> Result<Daemon> {
        self.launch(Launch { extra, ..Launch::default() }).await
    }

    /// The same as a node of the cluster of this API server.
    pub async fn join(&self, server: &FakeApiServer, extra: &str) -> Result<Daemon> {
        let kubeconfig = self.directory().join("kubeconfig");
        fs::write(&kubeconfig, server.kubeconfig())
            .with_context(|| format!("writing {}", kubeconfig.display()))?;
        self.launch(Launch { kubeconfig: Some(&kubeconfig), extra, ..Launch::default() }).await
    }

    /// The same with this kubeconfig, if any: the flag names a file in any case.
    pub async fn join_by(&self, text: Option<&str>) -> Result<Daemon> {
        let kubeconfig = self.directory().join("kubeconfig");
        if let Some(text) = text {
            fs::write(&kubeconfig, text).with_context(|| format!("writing {}", kubeconfig.display()))?;
        }
        self.launch(Launch { kubeconfig: Some(&kubeconfig), ..Launch::default() }).await
    }

    /// The same with these flags, and with a `kubeconfig` in the host's directory that need not exist.
    pub async fn join_with(&self, flags: &[String], extra: &str) -> Result<Daemon> {
        let kubeconfig = self.directory().join("kubeconfig");
        self.launch(Launch { kubeconfig: Some(&kubeconfig), extra, flags, ..Launch::default() }).await
    }

    /// The same standalone, with these variables in its environment.
    pub async fn start_supervised(&self, variables: &[(&str, &str)], extra: &str) -> Result<Daemon> {
        self.launch(Launch { variables, extra, ..Launch::default() }).await
    }

    /// The same as [`FakeHost::start_hostlet`] with YAML of further `HostletConfiguration` fields.
    pub async fn start_hostlet_with(&self, extra: &str, hostlet: &str) -> Result<Daemon> {
        let mut daemon = self.spawn(Launch { extra, hostlet, ..Launch::default() })?;
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    /// Starts a daemon that is to end by itself, and waits for that.
    pub async fn run_until_it_ends(&self, extra: &str) -> Result<ExitStatus> {
        self.spawn(Launch { extra, ..Launch::default() })?.wait_until_it_ends(END).await
    }

    /// The same with these flags.
    pub async fn run_with_until_it_ends(&self, flags: &[String]) -> Result<ExitStatus> {
        self.spawn(Launch { flags, ..Launch::default() })?.wait_until_it_ends(END).await
    }

    /// The same under a service manager, with these variables.
    pub async fn run_supervised_until_it_ends(&self, variables: &[(&str, &str)]) -> Result<ExitStatus> {
        self.spawn(Launch { variables, ..Launch::default() })?.wait_until_it_ends(END).await
    }

    /// A subcommand that works without the daemon, about the daemon that ran here.
    pub fn command_without_daemon(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(program()?);
        let root = self.directory().join("kubelet");
        command
            .args(args)
            .arg("--config")
            .arg(self.directory().join("config.yaml"))
            .arg("--root-dir")
            .arg(root);
        Ok(command)
    }

    /// The log of this host's daemons.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory().join("hostlet.log")).unwrap_or_default()
    }

    async fn launch(&self, launch: Launch<'_>) -> Result<Daemon> {
        let mut daemon = self.spawn(launch)?;
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    fn spawn(&self, launch: Launch<'_>) -> Result<Daemon> {
        let Launch { kubeconfig, extra, hostlet, flags, variables } = launch;
        let extra = format!("cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n{extra}");
        let setup = Setup {
            state: self.directory(),
            node: &self.node,
            runtime: &self.cri.socket(),
            socket: &self.socket(),
            manifests: &self.manifests(),
            logs: &self.logs(),
            kubeconfig,
            extra: &extra,
            hostlet,
            flags,
        };
        let command = |program: &Path| {
            let mut command = match &self.etc {
                None => dies_with_us(program),
                Some(etc) => with_etc(etc, program),
            };
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            command.envs(variables.iter().copied());
            command
        };
        Daemon::launch(&setup, command)
    }

    /// The log links of this host's pods.
    pub fn log_links(&self) -> Vec<PathBuf> {
        let links = fs::read_dir(LOG_LINKS).into_iter().flatten().flatten().map(|entry| entry.path());
        let ours = |link: &PathBuf| fs::read_link(link).is_ok_and(|log| log.starts_with(self.logs()));
        links.filter(ours).collect()
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        // Volumes of pods; and where the host's root mount is not shared, the daemon mounted its directory on itself.
        let table = fs::read("/proc/self/mountinfo").map(|text| MountTable::parse(&text)).unwrap_or_default();
        let kubelet = self.directory().join("kubelet");
        for mount in table.within(&kubelet).collect::<Vec<_>>().into_iter().rev() {
            let _ = umount2(&mount.point, MntFlags::MNT_DETACH);
        }
        for link in self.log_links() {
            // It may be removed already: a daemon that is stopping cleans up as well.
            let _ = fs::remove_file(link);
        }
    }
}

/// A command whose program exits with the test process, even if that is killed.
fn dies_with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// The same with this directory as its `/etc`, in a mount namespace of its own.
fn with_etc(etc: &Path, program: &Path) -> Command {
    let mut command = dies_with_us(Path::new("unshare"));
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg(r#"mount --bind "$1" /etc && shift && exec "$@""#).arg("sh").arg(etc).arg(program);
    command
}

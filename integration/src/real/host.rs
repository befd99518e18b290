//! A test host: its names, directories, start and removal. Everything it creates has its ID in the name, so that the next test can
//! find and remove the leftovers of a killed one.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::belongings::{Belonging, Owners, belongings};
use super::containerd::{BRIDGE, Containerd};
use super::cri::Cri;
use super::disk::Disk;
use super::leftovers::{end, remove, remove_abandoned, remove_dir};
use super::netns::{LONELY_ADDRESS, Netns};
use super::processes::{ContainerProcess, container_processes};
use super::registry::{Manner, Registry};
use super::trap::Trap;
use super::uncancelled;
use crate::daemon::{Daemon, Setup};
use crate::manifests;
use crate::shell::{lib, run, text};

/// Distinguishes the hosts of one test process.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The pod subnet of a standalone host.
const LONELY_PODS: &str = "10.88.0.0/16";

/// The directories of a host.
#[derive(Clone, Debug)]
pub(crate) struct Dirs {
    /// `hl-<pid of the test>-<number>`: also the name of the network namespace and of the cgroup.
    pub(crate) id: String,
    /// Files on disk.
    pub(crate) state: PathBuf,
    /// Sockets and mounts.
    pub(crate) run: PathBuf,
}

impl Dirs {
    /// Creates the directories of a new host. Fails with a clear message if not root.
    pub(crate) fn create() -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            bail!("tests on real parts need root: run them with `sudo integration/test.sh`");
        }
        remove_abandoned();
        let dirs = Self::of(&format!("hl-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        for dir in [&dirs.run, &dirs.manifests(), &dirs.logs()] {
            fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        Ok(dirs)
    }

    pub(super) fn of(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            // Not /tmp, which may be a tmpfs too small for container roots.
            state: Path::new("/var/tmp").join(id),
            run: Path::new("/run").join(id),
        }
    }

    /// The files of disks of its own.
    pub(super) fn disks(&self) -> PathBuf {
        Path::new("/var/tmp").join(format!("{}-disks", self.id))
    }

    pub(super) fn containerd_root(&self) -> PathBuf {
        self.state.join("containerd")
    }

    pub(super) fn containerd_state(&self) -> PathBuf {
        self.run.join("containerd")
    }

    pub(super) fn containerd_socket(&self) -> PathBuf {
        self.containerd_state().join("containerd.sock")
    }

    /// The network plugin's directory of address leases.
    pub(super) fn addresses(&self) -> PathBuf {
        self.state.join("addresses")
    }

    pub(super) fn manifests(&self) -> PathBuf {
        self.state.join("manifests")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    pub(super) fn archives(&self) -> PathBuf {
        self.state.join("archives")
    }
}

/// containerd's state of earlier pods after a reboot. Images remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReboot {
    /// Lost.
    NothingKnown,
    /// Kept, as after a power failure.
    DeadKnown,
}

/// The format of an image archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveForm {
    /// An OCI image layout in a tar.
    Oci,
    /// The same with its layer compressed by zstd.
    OciZstd,
    /// The output of `docker save`, compressed.
    Docker,
}

/// A host with its own network, a real containerd and a manifest directory. Dropping it removes everything it created, including
/// pods.
#[derive(Debug)]
pub struct RealHost {
    dirs: Dirs,
    netns: Netns,
    containerd: Containerd,
    cri: Cri,
    disks: Vec<Disk>,
}

impl RealHost {
    /// Creates a host: network namespace, containerd, images. Fails with a clear message if not root.
    pub async fn start() -> Result<Self> {
        Self::start_at(LONELY_ADDRESS, LONELY_PODS).await
    }

    /// A host with two disks, each of this many bytes: the first one for all its files, the second one for the daemon's own. Both are
    /// given by [`RealHost::disks`] in this order. The second one loses nothing in an error: what was made on the first one after a record
    /// would outlive it, as it cannot on one disk with a journal.
    pub async fn start_on_disks(all: u64, own: u64) -> Result<Self> {
        let dirs = Dirs::create()?;
        let made = Self::make_on_disks(&dirs, all, own).await;
        if made.is_err() {
            remove(&dirs.id)?;
        }
        made
    }

    async fn make_on_disks(dirs: &Dirs, all: u64, own: u64) -> Result<Self> {
        let files = dirs.disks();
        fs::create_dir(&files).with_context(|| format!("creating {}", files.display()))?;
        let all = Disk::make(&files.join("all"), &dirs.state, all, false)?;
        let records = dirs.state.join("kubelet/hostlet");
        for dir in [&dirs.manifests(), &dirs.logs(), &records] {
            fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        let own = Disk::make(&files.join("own"), &records, own, true)?;
        let mut host = Self::make(dirs, LONELY_ADDRESS, LONELY_PODS).await?;
        host.disks = vec![all, own];
        Ok(host)
    }

    /// A host with its own address and a subnet for its pods, so that it can be one of several.
    pub(crate) async fn start_at(address: &str, pods: &str) -> Result<Self> {
        let dirs = Dirs::create()?;
        let made = Self::make(&dirs, address, pods).await;
        if made.is_err() {
            remove(&dirs.id)?;
        }
        made
    }

    async fn make(dirs: &Dirs, address: &str, pods: &str) -> Result<Self> {
        let netns = Netns::create(&dirs.id, address)?;
        let containerd = Containerd::start(dirs, &netns, pods).await?;
        let cri = Cri::connect(containerd.socket()).await?;
        Ok(Self { dirs: dirs.clone(), netns, containerd, cri, disks: Vec::new() })
    }

    /// The host's ID, part of all its names.
    pub fn id(&self) -> &str {
        &self.dirs.id
    }

    /// Its own disks.
    pub fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// containerd's socket.
    pub fn socket(&self) -> &Path {
        self.containerd.socket()
    }

    /// hostlet's control socket.
    pub fn hostlet_socket(&self) -> PathBuf {
        self.dirs.run.join("hostlet.sock")
    }

    /// containerd's pid.
    pub fn containerd_pid(&self) -> u32 {
        self.containerd.pid()
    }

    /// A CRI client independent of hostlet.
    pub fn cri(&self) -> &Cri {
        &self.cri
    }

    /// The directory hostlet reads manifests from.
    pub fn manifests(&self) -> PathBuf {
        self.dirs.manifests()
    }

    /// The directory of image archives. It does not exist at first.
    pub fn archives(&self) -> PathBuf {
        self.dirs.archives()
    }

    /// Adds an archive of a new busybox image to the directory of archives, in OCI format or that of `docker save`.
    pub fn write_archive(&self, name: &str, reference: &str, form: ArchiveForm) -> Result<()> {
        let (made, hidden) = (self.dirs.state.join(name), self.archives().join(format!(".{name}")));
        fs::create_dir_all(self.archives()).context("making the directory of archives")?;
        lib("make_busybox", [made.as_os_str(), reference.as_ref()])?;
        match form {
            ArchiveForm::Oci => {
                fs::copy(&made, &hidden).context("copying an archive")?;
            }
            ArchiveForm::OciZstd => {
                lib("zstd_layer", [made.as_os_str(), hidden.as_os_str()])?;
            }
            ArchiveForm::Docker => {
                lib("docker_archive", [made.as_os_str(), hidden.as_os_str(), reference.as_ref()])?;
            }
        }
        fs::rename(&hidden, self.archives().join(name)).context("renaming an archive into place")
    }

    /// Serves an image from a registry on this host.
    pub fn registry(&self, manner: Manner) -> Result<Registry> {
        Registry::start(&self.dirs.state, &self.registry_settings(), &self.netns, manner)
    }

    /// containerd's directory with the settings of each registry.
    pub(super) fn registry_settings(&self) -> PathBuf {
        self.dirs.containerd_root().join("certs.d")
    }

    /// Runs `ctr` in the CRI's namespace.
    pub fn ctr(&self, args: &[&str]) -> Result<String> {
        run(Command::new("ctr").arg("-a").arg(self.socket()).args(["-n", "k8s.io"]).args(args))
    }

    /// The daemon's root directory.
    pub fn kubelet_root(&self) -> PathBuf {
        self.dirs.state.join("kubelet")
    }

    /// Triggers containerd's garbage collection of snapshots and content.
    pub fn collect_garbage(&self) -> Result<()> {
        const GARBAGE: &str = "hostlet.local/garbage:1";
        // Only a removal can wait for the garbage collector.
        self.ctr(&["images", "tag", "--force", super::PAUSE_IMAGE, GARBAGE])?;
        self.ctr(&["images", "rm", "--sync", GARBAGE])?;
        Ok(())
    }

    /// Creates a directory for a test on this host, removed with the host.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.dirs.state.join(name);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }

    /// The directory pods' logs are written to.
    pub fn logs(&self) -> PathBuf {
        self.dirs.logs()
    }

    /// Its directories.
    pub(crate) fn dirs(&self) -> &Dirs {
        &self.dirs
    }

    /// Its network.
    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Starts the daemon and waits until it responds. `extra` is YAML of further `KubeletConfiguration` fields.
    pub async fn start_hostlet(&self, extra: &str) -> Result<Daemon> {
        self.start_hostlet_with(extra, "").await
    }

    /// The same with YAML of further `HostletConfiguration` fields.
    pub async fn start_hostlet_with(&self, extra: &str, hostlet: &str) -> Result<Daemon> {
        let mut daemon = self.launch_hostlet_with(extra, hostlet, self.socket(), &[], &[])?;
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    /// Starts the daemon with these variables of its environment, and waits until it responds.
    pub async fn start_hostlet_in(&self, extra: &str, environment: &[(&str, &str)]) -> Result<Daemon> {
        let mut daemon = self.launch_hostlet_with(extra, "", self.socket(), environment, &[])?;
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    /// Starts the daemon with further flags, and waits until it responds.
    pub async fn start_hostlet_with_flags(&self, extra: &str, flags: &[String]) -> Result<Daemon> {
        let mut daemon = self.launch_hostlet_with(extra, "", self.socket(), &[], flags)?;
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    /// Starts the daemon with a proxy to containerd that drops cancellations, and waits until it responds.
    pub async fn start_hostlet_that_cannot_cancel(&self, extra: &str) -> Result<Daemon> {
        let socket = self.dirs.run.join("uncancelled.sock");
        uncancelled::serve(&socket, self.socket())?;
        let mut daemon = self.launch_hostlet_with(extra, "", &socket, &[], &[])?;
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    /// Puts a trap between the daemon and containerd, which must not be restarted from then on.
    pub fn lay_trap(&self) -> Result<Trap> {
        Trap::lay(self.socket(), self.kubelet_root().join("hostlet/store.redb"))
    }

    /// The shims of this host's containerd without a sandbox, one line per process.
    pub async fn shims_of_nobody(&self) -> Result<Vec<String>> {
        let shims = lib("pids_of", [OsStr::new("containerd-shim-runc-v2"), self.socket().as_os_str()])?;
        let listed: HashSet<String> = self.cri.sandboxes().await?.into_iter().map(|s| s.id).collect();
        let line = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let lines = shims.split_whitespace().map(|pid| (pid, line(pid)));
        let of_nobody =
            lines.filter(|(_, line)| !line.is_empty() && !listed.iter().any(|id| line.contains(id)));
        Ok(of_nobody.map(|(pid, line)| format!("{pid}: {}", line.replace('\0', " "))).collect())
    }

    /// Starts the daemon without waiting.
    pub fn launch_hostlet(&self, extra: &str) -> Result<Daemon> {
        self.launch_hostlet_with(extra, "", self.socket(), &[], &[])
    }

    fn launch_hostlet_with(
        &self,
        extra: &str,
        hostlet: &str,
        runtime: &Path,
        environment: &[(&str, &str)],
        flags: &[String],
    ) -> Result<Daemon> {
        let dirs = &self.dirs;
        // Its own cgroups with the cgroupfs driver, because a test host may lack systemd.
        let extra = format!("cgroupDriver: cgroupfs\ncgroupRoot: /{}\n{extra}", dirs.id);
        let setup = Setup {
            state: &dirs.state,
            node: "node1",
            runtime,
            socket: &self.hostlet_socket(),
            manifests: &self.manifests(),
            logs: &self.logs(),
            kubeconfig: None,
            extra: &extra,
            hostlet,
            flags,
        };
        Daemon::launch(&setup, |program| {
            let mut command = self.netns.command(&program.to_string_lossy());
            command.envs(environment.iter().copied());
            command
        })
    }

    /// Writes a manifest atomically.
    pub fn write_manifest(&self, name: &str, text: &str) -> Result<()> {
        manifests::write(&self.manifests(), name, text)
    }

    /// Removes a manifest.
    pub fn remove_manifest(&self, name: &str) -> Result<()> {
        manifests::remove(&self.manifests(), name)
    }

    /// Blocks the pod network: no address is assigned until the result is dropped.
    pub fn hold_up_addresses(&self) -> Result<File> {
        let dir = self.dirs.addresses().join(&self.dirs.id);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        // The network plugin's own lock.
        let lock = File::create(dir.join("lock")).context("making the lock of the addresses")?;
        lock.lock().context("locking the addresses")?;
        Ok(lock)
    }

    /// Gets the body of `http://<address><path>` in this host's network.
    pub fn http_get(&self, address: &str, path: &str) -> Result<String> {
        let output = self
            .netns
            .command("curl")
            .args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "30"])
            .arg(format!("http://{address}{path}"))
            .output()
            .context("running curl")?;
        text(&output).with_context(|| format!("GET http://{address}{path}"))
    }

    /// Kills and restarts containerd; pods keep running.
    pub async fn restart_containerd(&mut self) -> Result<()> {
        self.kill_containerd()?;
        self.launch_containerd()?;
        self.wait_for_containerd().await
    }

    /// Kills containerd; its shims and pods keep running. Idempotent.
    pub fn kill_containerd(&mut self) -> Result<()> {
        self.containerd.kill()
    }

    /// Restarts a killed containerd without waiting.
    pub fn launch_containerd(&mut self) -> Result<()> {
        self.containerd.launch(&self.netns)
    }

    /// Waits until containerd responds.
    pub async fn wait_for_containerd(&self) -> Result<()> {
        self.containerd.wait_until_it_answers().await
    }

    /// Freezes containerd: it keeps its connections but does not respond until thawed.
    pub fn freeze_containerd(&self) -> Result<()> {
        self.containerd.signal(Signal::SIGSTOP)
    }

    /// Thaws containerd.
    pub fn thaw_containerd(&self) -> Result<()> {
        self.containerd.signal(Signal::SIGCONT)
    }

    /// Kills everything and removes what does not survive a reboot: sockets, mounts, cgroups, interfaces. The daemon must be
    /// dead.
    pub async fn power_off(&mut self, after: AfterReboot) -> Result<()> {
        if after == AfterReboot::NothingKnown {
            for sandbox in self.cri.sandboxes().await? {
                self.cri.remove_sandbox(&sandbox.id).await?;
            }
        }
        self.kill_containerd()?;
        end(&self.dirs)?;
        remove_dir(&self.dirs.containerd_state())?;
        run(Command::new("ip").args(["-n", &self.dirs.id, "link", "delete", BRIDGE]))?;
        Ok(())
    }

    /// The init processes of all containers.
    pub fn container_processes(&self) -> Result<Vec<ContainerProcess>> {
        container_processes(&self.dirs.id)
    }

    /// Leftovers of pods on the host, one line each; `pods` are the UIDs of the desired pods. Only items found in two checks,
    /// because containers may start and exit meanwhile.
    pub async fn strays(&self, pods: &HashSet<String>) -> Result<Vec<String>> {
        let first = self.strays_now(pods).await?;
        if first.is_empty() {
            return Ok(Vec::new());
        }
        let second = self.strays_now(pods).await?;
        Ok(first.intersection(&second).map(ToString::to_string).collect())
    }

    async fn strays_now(&self, pods: &HashSet<String>) -> Result<BTreeSet<Belonging>> {
        let owners = Owners::ask(&self.cri, pods).await?;
        Ok(belongings(self, &self.dirs)?.into_iter().filter(|thing| !owners.own(thing)).collect())
    }

    /// The same, after which containerd sends no message of more than `bytes`.
    pub async fn restart_containerd_with_small_messages(&mut self, bytes: usize) -> Result<()> {
        self.containerd.limit_messages(bytes)?;
        self.restart_containerd().await
    }

    /// The same, after which containerd has no network until it receives the range of the pods' addresses, which is returned.
    pub async fn restart_containerd_without_network(&mut self) -> Result<String> {
        let range = self.containerd.template_network(&self.dirs)?;
        self.restart_containerd().await?;
        Ok(range)
    }

    /// A command that runs `program` in this host's network.
    pub fn command(&self, program: &str) -> Command {
        self.netns.command(program)
    }
}

impl Drop for RealHost {
    #[allow(
        clippy::print_stderr,
        reason = "a failed test shows the runtime's log; a failed clean-up is no secret"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("containerd of {} logged last:\n{}", self.dirs.id, self.containerd.log_tail());
        }
        // Reaped here, because it is our child; the rest is found by name.
        let killed = self.containerd.kill();
        if let Err(error) = killed.and_then(|()| remove(&self.dirs.id)) {
            eprintln!("host {} is not removed: {error:#}", self.dirs.id);
        }
    }
}

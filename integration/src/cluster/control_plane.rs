//! The control plane: child processes in a network namespace that is the hub of all nodes' networks.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;

use super::gateway::Gateway;
use crate::hollow::write_kubeconfigs;
use crate::real::{Dirs, Netns, remove};
use crate::shell::{lib, run, spawn_logged, tail};
use crate::wait::{Look, wait_for};

/// The API server's address in the hub.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PORT: u16 = 6443;
/// The pod subnets of all nodes.
const PODS: &str = "10.88.0.0/16";
const START_TIMEOUT: Duration = Duration::from_secs(240);

/// The place of the API server among the programs.
const API_SERVER: usize = 1;

/// The cluster shared by concurrent tests.
static SHARED: tokio::sync::Mutex<Weak<Cluster>> = tokio::sync::Mutex::const_new(Weak::new());

/// A running control plane. Dropping it stops it.
#[derive(Debug)]
pub struct Cluster {
    dirs: Dirs,
    netns: Netns,
    programs: Mutex<Vec<Child>>,
    /// Held open.
    _gateway: Gateway,
    joined: AtomicU8,
}

/// A host's place in the cluster's network.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The node's name.
    pub(super) name: String,
    /// Its address.
    pub(super) address: String,
    /// The subnet of its pods.
    pub(super) pods: String,
}

impl Cluster {
    /// The shared cluster of this process: started on the first request, stopped with the last user.
    pub async fn shared() -> Result<Arc<Self>> {
        let mut shared = SHARED.lock().await;
        if let Some(cluster) = shared.upgrade() {
            return Ok(cluster);
        }
        let cluster = Arc::new(Self::start().await?);
        *shared = Arc::downgrade(&cluster);
        Ok(cluster)
    }

    /// Starts a control plane and waits until it serves; builds missing programs first.
    pub async fn start() -> Result<Self> {
        lib(
            "build_kubernetes",
            ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"],
        )?;
        let dirs = Dirs::create()?;
        let made = Self::make(&dirs).await;
        if made.is_err() {
            remove(&dirs.id)?;
        }
        made
    }

    async fn make(dirs: &Dirs) -> Result<Self> {
        let netns = Netns::create(&dirs.id, &ADDRESS.to_string())?;
        lib("prepare_control_plane", [dirs.state.as_os_str(), ADDRESS.to_string().as_ref()])?;
        let gateway = Gateway::open(&netns.path(), SocketAddr::from((ADDRESS, PORT)))?;
        let server = format!("https://127.0.0.1:{}", gateway.port());
        let pki = dirs.state.join("pki");
        let kubeconfig = lib("kubeconfig", [pki.as_os_str(), "admin".as_ref(), server.as_ref()])?;
        let joined = AtomicU8::new(0);
        let programs = Mutex::default();
        let cluster = Self { dirs: dirs.clone(), netns, programs, _gateway: gateway, joined };
        fs::write(cluster.kubeconfig(), kubeconfig).context("writing a kubeconfig")?;
        for program in ["etcd", "kube-apiserver"] {
            cluster.start_program(program)?;
        }
        cluster.wait_until_it_serves().await?;
        for program in ["kube-controller-manager", "kube-scheduler"] {
            cluster.start_program(program)?;
        }
        Ok(cluster)
    }

    fn start_program(&self, name: &str) -> Result<()> {
        let child = self.spawn(&self.netns, name, &self.log(name), &[])?;
        self.programs.lock().push(child);
        Ok(())
    }

    /// Starts one of the cluster's programs in a network, with additional arguments.
    pub(super) fn spawn(&self, netns: &Netns, name: &str, log: &Path, more: &[String]) -> Result<Child> {
        let address = ADDRESS.to_string();
        let args = lib("control_plane_args", [name.as_ref(), self.dirs.state.as_os_str(), address.as_ref()])?;
        let mut command = netns.command(lib("kubernetes_program", [name])?.trim());
        command.args(args.lines()).args(more);
        spawn_logged(&mut command, log).with_context(|| format!("starting {name}"))
    }

    async fn wait_until_it_serves(&self) -> Result<()> {
        let client = self.client().await?;
        wait_for("the API server is ready", START_TIMEOUT, async || {
            for child in self.programs.lock().iter_mut() {
                if let Some(status) = child.try_wait().context("looking after a program")? {
                    bail!(
                        "a program has ended ({status}):\n{}",
                        tail(&self.dirs.logs().join("kube-apiserver.log"))
                    );
                }
            }
            let ready = http::Request::get("/readyz").body(Vec::new()).context("a request")?;
            Ok(match client.request_text(ready).await {
                Ok(_) => Look::Done(()),
                Err(error) => Look::NotYet(format!("{error}")),
            })
        })
        .await
    }

    /// Kills the API server.
    pub fn stop_api_server(&self) -> Result<()> {
        let mut programs = self.programs.lock();
        let server = programs.get_mut(API_SERVER).context("no API server")?;
        server.kill().context("killing the API server")?;
        server.wait().context("waiting for the end of the API server")?;
        Ok(())
    }

    /// Starts it again, and waits until it serves.
    pub async fn start_api_server(&self) -> Result<()> {
        let name = "kube-apiserver";
        let child = self.spawn(&self.netns, name, &self.log(name), &[])?;
        *self.programs.lock().get_mut(API_SERVER).context("no API server")? = child;
        self.wait_until_it_serves().await
    }

    /// Sends the API server a signal, e.g. SIGSTOP, after which it keeps its connections and does not respond.
    pub fn signal_api_server(&self, signal: Signal) -> Result<()> {
        let id = self.programs.lock().get(API_SERVER).context("no API server")?.id();
        let pid = i32::try_from(id).context("a pid out of range")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("sending {signal} to the API server"))
    }

    /// Kubeconfigs of hollow nodes.
    pub(crate) fn hollow_kubeconfigs(&self, count: u16) -> Result<Vec<PathBuf>> {
        let pki = self.dirs.state.join("pki");
        lib("make_hollow_certificates", [pki.as_os_str(), count.to_string().as_ref()])?;
        let server = format!("https://{ADDRESS}:{PORT}");
        write_kubeconfigs(&self.dirs.state, &server, &pki, count)
    }

    /// The file of the API server's network.
    pub(crate) fn netns_path(&self) -> PathBuf {
        self.netns.path()
    }

    /// The log of one of its programs.
    pub(super) fn log(&self, program: &str) -> PathBuf {
        self.dirs.logs().join(format!("{program}.log"))
    }

    /// An administrator's kubeconfig for processes of this machine.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dirs.state.join("outside.conf")
    }

    /// A command that runs `program` in the API server's network, from which nodes and pods are reached.
    pub fn command(&self, program: &str) -> Command {
        self.netns.command(program)
    }

    /// An administrator's kubeconfig for that network.
    pub fn inner_kubeconfig(&self) -> PathBuf {
        self.dirs.state.join("admin.conf")
    }

    /// curl, as an administrator who asks the node at this address itself. Fails if the answer is an error or breaks off.
    pub fn ask_node(&self, address: &str, path: &str) -> Command {
        let pki = self.dirs.state.join("pki");
        let mut command = self.command("curl");
        command.args(["--silent", "--show-error", "--fail", "--insecure"]);
        command.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
        command.arg(format!("https://{address}:10250/{path}"));
        command
    }

    /// Where its files are.
    pub(super) fn state(&self) -> PathBuf {
        self.dirs.state.clone()
    }

    /// An administrator's client. It belongs to the current tokio runtime.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).context("reading the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.context("using the kubeconfig")?).context("making a client")
    }

    /// Runs kubectl as administrator.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        run(self.kubectl_command()?.args(args))
    }

    /// kubectl as administrator, for its arguments.
    pub fn kubectl_command(&self) -> Result<Command> {
        let program = lib("kubernetes_program", ["kubectl"])?;
        let mut command = Command::new(program.trim());
        command.arg("--kubeconfig").arg(self.kubeconfig());
        Ok(command)
    }

    /// Audit events of nodes' requests, one JSON object per line.
    pub fn audit_log(&self) -> PathBuf {
        self.dirs.state.join("audit.log")
    }

    /// The CA of all its certificates.
    pub(super) fn ca(&self) -> PathBuf {
        self.dirs.state.join("pki/ca.crt")
    }

    /// Creates a node's certificates: a kubeconfig for the API server, and serving certificates.
    pub(super) fn certify(&self, place: &Place) -> Result<(String, PathBuf, PathBuf)> {
        let pki = self.dirs.state.join("pki");
        let (name, address) = (&place.name, &place.address);
        lib("make_node_certificates", [pki.as_os_str(), name.as_ref(), address.as_ref()])?;
        let server = format!("https://{ADDRESS}:{PORT}");
        let kubeconfig = lib("kubeconfig", [pki.as_os_str(), name.as_ref(), server.as_ref()])?;
        Ok((kubeconfig, pki.join(format!("{name}-serving.crt")), pki.join(format!("{name}-serving.key"))))
    }

    /// Lets nodes join with a token, whose requests are approved, and returns a kubeconfig with the token.
    pub(super) fn bootstrap_kubeconfig(&self) -> Result<String> {
        let manifest = self.dirs.state.join("bootstrap.yaml");
        fs::write(&manifest, lib("bootstrap_objects", [""; 0])?).context("writing a manifest")?;
        self.kubectl(&["apply", "-f", &manifest.display().to_string()])?;
        let server = format!("https://{ADDRESS}:{PORT}");
        lib("bootstrap_kubeconfig", [self.dirs.state.join("pki").as_os_str(), server.as_ref()])
    }

    /// A place for another host, never used twice.
    pub(super) fn place(&self) -> Place {
        let number = self.joined.fetch_add(1, Ordering::Relaxed) + 1;
        Place {
            name: format!("node{number}"),
            address: format!("10.77.1.{number}"),
            pods: format!("10.88.{number}.0/24"),
        }
    }

    /// Connects a host's network with the hub.
    pub(super) fn connect(&self, place: &Place, netns: &Netns) -> Result<()> {
        netns.connect(&self.netns, &place.name)?;
        self.netns.ip(&[&format!("route add {} via {}", place.pods, place.address)])?;
        netns.ip(&[&format!("route add {PODS} via {ADDRESS}")])
    }
}

impl Drop for Cluster {
    #[allow(clippy::print_stderr, reason = "a failed clean-up is no secret")]
    fn drop(&mut self) {
        for child in self.programs.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Err(error) = remove(&self.dirs.id) {
            eprintln!("the control plane {} is not removed: {error:#}", self.dirs.id);
        }
    }
}

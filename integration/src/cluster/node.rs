//! A host as a node: its containerd, its place in the cluster's network, and its agent.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::agent::{Agent, Joining};
use super::control_plane::{ADDRESS, Cluster, Place};
use crate::real::RealHost;
use crate::shell::{lib, run, spawn_logged, tail};
use crate::wait::{Look, wait_for};

const READY_TIMEOUT: Duration = Duration::from_secs(180);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A node. Dropping it removes the host with its pods; the Node object remains.
#[derive(Debug)]
pub struct Node {
    cluster: Arc<Cluster>,
    place: Place,
    kind: Agent,
    joining: Joining,
    labels: String,
    extra: Value,
    agent: Option<Child>,
    proxy: Option<Child>,
    host: RealHost,
}

/// The error of a stock kubelet that starts at the same moment as another one: this socket is always below `/var/lib/kubelet`, and
/// each removes and binds it.
const SOCKET_IN_USE: &str = "device-plugins/kubelet.sock: bind: address already in use";

impl Node {
    /// Creates a host, connects it and starts the agent without waiting for it to be ready. `labels` are the node's; `extra`
    /// are further fields of `KubeletConfiguration`.
    pub(super) async fn join(
        cluster: &Arc<Cluster>,
        kind: Agent,
        joining: Joining,
        labels: &str,
        extra: &Value,
    ) -> Result<Self> {
        let place = cluster.place();
        let host = RealHost::start_at(&place.address, &place.pods).await?;
        cluster.connect(&place, host.netns())?;
        lib("make_cgroup", [host.id()])?;
        let (labels, extra) = (labels.to_owned(), extra.clone());
        let mut node = Self {
            cluster: cluster.clone(),
            place,
            kind,
            joining,
            labels,
            extra,
            agent: None,
            proxy: None,
            host,
        };
        node.start_agent()?;
        Ok(node)
    }

    /// Starts the agent.
    pub fn start_agent(&mut self) -> Result<()> {
        let program = self.kind.program()?;
        let Self { cluster, place, labels, host, extra, .. } = self;
        let args = self.kind.arrange(cluster, place, self.joining, labels, host, extra)?;
        let mut command = self.host.command(&program.to_string_lossy());
        let child = spawn_logged(command.args(args), &self.log())?;
        self.agent = Some(child);
        Ok(())
    }

    /// Replaces the further fields of `KubeletConfiguration` from the agent's next start on.
    pub fn configure(&mut self, extra: &Value) {
        self.extra = extra.clone();
    }

    /// Adds an address to the host, which the agent reports as the node's after its next start, and returns it. The API
    /// server's host has no route to it.
    pub fn readdress(&mut self) -> Result<String> {
        let number = self.place.address.rsplit('.').next().unwrap_or_default().to_owned();
        let address = format!("10.77.2.{number}");
        self.host.netns().ip(&[&format!("address add {address}/32 dev lo")])?;
        self.place.address.clone_from(&address);
        Ok(address)
    }

    /// Cuts the host off the API server, or connects it again: packets to it are answered with an error.
    pub fn cut_off(&self, is_cut_off: bool) -> Result<()> {
        let action = if is_cut_off { "add" } else { "delete" };
        self.host.netns().ip(&[&format!("route {action} unreachable {ADDRESS}/32")])
    }

    /// Removes what a reboot removes while no agent runs: sandboxes, containers, and what is in memory of volumes.
    pub async fn lose_memory(&self) -> Result<()> {
        let cri = self.host.cri();
        for sandbox in cri.sandboxes().await? {
            cri.stop_sandbox(&sandbox.id).await?;
            cri.remove_sandbox(&sandbox.id).await?;
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
        let pods = self.root_dir().join("pods").display().to_string();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        // The last mount first: it may be on another one.
        let of_pods: Vec<&str> = points.filter(|point| point.starts_with(&pods)).collect();
        for point in of_pods.into_iter().rev() {
            run(Command::new("umount").arg(point))?;
        }
        Ok(())
    }

    /// Starts kube-proxy, so that service addresses work on this node.
    pub fn start_proxy(&mut self) -> Result<()> {
        let log = self.host.dirs().state.join("kube-proxy.log");
        let name = format!("--hostname-override={}", self.place.name);
        self.proxy = Some(self.cluster.spawn(self.host.netns(), "kube-proxy", &log, &[name])?);
        Ok(())
    }

    /// Restarts containerd; its containers keep running.
    pub async fn restart_containerd(&mut self) -> Result<()> {
        self.host.restart_containerd().await
    }

    /// Kills the agent with SIGKILL.
    pub fn kill_agent(&mut self) -> Result<()> {
        end(self.agent.take())
    }

    /// Stops the agent with SIGTERM and waits for its exit.
    pub async fn stop_agent(&mut self) -> Result<()> {
        let mut child = self.agent.take().context("no agent runs")?;
        let pid = i32::try_from(child.id()).context("a pid out of range")?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("sending SIGTERM to the agent")?;
        wait_for("the agent ends on SIGTERM", STOP_TIMEOUT, async || {
            let ended = child.try_wait().context("looking after the agent")?;
            Ok(ended.map_or_else(|| Look::NotYet("it runs".to_owned()), |_| Look::Done(())))
        })
        .await
    }

    /// Stops the agent, and starts another one in its place: it gets the same directory, runtime and Node. hostlet has to be permitted to
    /// take over the pods (`adoptForeignPods`).
    pub async fn replace_agent(&mut self, kind: Agent) -> Result<()> {
        self.stop_agent().await?;
        self.kind = kind;
        self.start_agent()
    }

    /// Waits until the Node is ready and its controller has removed the taint, so that pods are scheduled. Returns it.
    pub async fn wait_until_ready(&mut self, client: &Client) -> Result<ApiNode> {
        let nodes: Api<ApiNode> = Api::all(client.clone());
        let (name, log) = (self.place.name.clone(), self.log());
        wait_for(&format!("{name} is ready"), READY_TIMEOUT, async || {
            if let Some(child) = &mut self.agent
                && let Some(status) = child.try_wait().context("looking after the agent")?
            {
                if self.kind == Agent::Stock && fs::read_to_string(&log)?.contains(SOCKET_IN_USE) {
                    self.start_agent()?;
                    return Ok(Look::NotYet("it met another stock kubelet that started".to_owned()));
                }
                return Ok(Look::Done(Err(anyhow!("the agent has ended ({status}):\n{}", tail(&log)))));
            }
            let node = nodes.get(&name).await?;
            let ready = condition(&node, "Ready").is_some_and(|(status, _)| status == "True");
            let usable = ready && !is_tainted(&node);
            Ok(if usable { Look::Done(Ok(node)) } else { Look::NotYet(format!("{node:?}")) })
        })
        .await?
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Its agent.
    pub fn agent(&self) -> Agent {
        self.kind
    }

    /// The pid of its agent.
    pub fn agent_pid(&self) -> Result<u32> {
        Ok(self.agent.as_ref().context("no agent runs")?.id())
    }

    /// The node's address.
    pub fn address(&self) -> &str {
        &self.place.address
    }

    /// The host.
    pub fn host(&self) -> &RealHost {
        &self.host
    }

    /// The directory of the certificates of an agent that requests them.
    pub fn certificates(&self) -> PathBuf {
        self.host.dirs().state.join("pki")
    }

    /// The agent's root directory.
    pub fn root_dir(&self) -> PathBuf {
        self.host.dirs().state.join("kubelet")
    }

    /// Leftovers of pods on this host, one line each: sandboxes and containers in any state, directories and logs of pods,
    /// cgroups, mounts.
    pub async fn leftovers(&self) -> Result<Vec<String>> {
        let sandboxes = self.host.cri().sandboxes().await?.into_iter().map(|it| format!("sandbox {}", it.id));
        let containers =
            self.host.cri().containers().await?.into_iter().map(|it| format!("container {}", it.id));
        let mut left: Vec<String> = sandboxes.chain(containers).collect();
        for dir in [self.root_dir().join("pods"), self.host.logs()] {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        for top in lib("cgroup_dirs", [self.host.id()])?.lines() {
            let pods = run(Command::new("find").args([top, "-type", "d", "-path", "*/pod*"]))?;
            left.extend(pods.lines().map(|dir| format!("cgroup {dir}")));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
        let pods = self.root_dir().join("pods").display().to_string();
        left.extend(mounts.lines().filter(|line| line.contains(&pods)).map(|line| format!("mount {line}")));
        Ok(left)
    }

    /// The agent's log file.
    pub fn log(&self) -> PathBuf {
        self.host.dirs().state.join("agent.log")
    }
}

impl Drop for Node {
    #[allow(clippy::print_stderr, reason = "a failed test shows the agent's log; a failed kill is no secret")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the agent of {} logged last:\n{}", self.place.name, tail(&self.log()));
        }
        for child in [self.agent.take(), self.proxy.take()] {
            if let Err(error) = end(child) {
                eprintln!("{} is not ended: {error:#}", self.place.name);
            }
        }
    }
}

/// Whether the node has a NoSchedule taint, which its controller removes a moment after it becomes ready.
fn is_tainted(node: &ApiNode) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"))
}

/// The status and reason of a node's condition.
fn condition<'a>(node: &'a ApiNode, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((&condition.status, condition.reason.as_deref().unwrap_or_default()))
}

fn end(child: Option<Child>) -> Result<()> {
    let Some(mut child) = child else { return Ok(()) };
    child.kill().context("killing a program")?;
    child.wait().context("waiting for a program's end")?;
    Ok(())
}

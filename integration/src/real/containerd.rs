//! The first containerd in `PATH` as a child process, with its own directories. Starts and stops it, and imports its
//! images.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::host::Dirs;
use super::netns::Netns;
use crate::shell::{integration_dir, lib, profile_dir, tail};
use crate::wait::{Look, wait_for};

/// The bridge of the pods in the host's network.
pub(super) const BRIDGE: &str = "cni0";
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running containerd.
#[derive(Debug)]
pub(super) struct Containerd {
    child: Child,
    socket: PathBuf,
    config: PathBuf,
    log: PathBuf,
}

impl Containerd {
    /// Starts containerd in `netns`, with addresses of the subnet `pods`, and imports the two local images, built if
    /// necessary.
    pub(super) async fn start(dirs: &Dirs, netns: &Netns, pods: &str) -> Result<Self> {
        let config = dirs.state.join("containerd.toml");
        write_config(dirs, &config, pods)?;
        let log = dirs.state.join("containerd.log");
        let child = spawn(netns, &config, &log)?;
        let containerd = Self { child, socket: dirs.containerd_socket(), config, log };
        containerd.wait_until_it_answers().await?;
        let images = images_dir()?;
        lib("build_images", [&images])?;
        lib("import_images", [&containerd.socket, &images])?;
        Ok(containerd)
    }

    /// The CRI socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last lines of its log.
    pub(super) fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Kills containerd, like a crash. Its shims, and so the pods, keep running.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("killing containerd")?;
        self.child.wait().context("waiting for containerd's end")?;
        Ok(())
    }

    /// Starts a killed containerd again on the same directories. Does not wait until it responds.
    pub(super) fn launch(&mut self, netns: &Netns) -> Result<()> {
        self.child = spawn(netns, &self.config, &self.log)?;
        Ok(())
    }

    /// Limits the size of its messages to `bytes`, from its next start on.
    pub(super) fn limit_messages(&self, bytes: usize) -> Result<()> {
        let text = fs::read_to_string(&self.config).context("reading containerd's configuration")?;
        let limited = text.replacen("[grpc]\n", &format!("[grpc]\n  max_send_message_size = {bytes}\n"), 1);
        anyhow::ensure!(limited != text, "no [grpc] in {text}");
        fs::write(&self.config, limited).context("writing containerd's configuration")
    }

    /// Makes it write the configuration of the pods' network by itself, from its next start on: from a template, once it knows the range
    /// of their addresses, which is returned.
    pub(super) fn template_network(&self, dirs: &Dirs) -> Result<String> {
        let (directory, template) = (networks(dirs), dirs.state.join("network.template"));
        let path = network(dirs);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let value: Value = serde_json::from_str(&text).context("parsing the network's configuration")?;
        let range = value.pointer("/plugins/0/ipam/ranges/0/0/subnet").and_then(Value::as_str);
        let range = range.with_context(|| format!("no range in {text}"))?.to_owned();
        fs::write(&template, text.replace(&range, "{{.PodCIDR}}")).context("writing a template")?;
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        let text = fs::read_to_string(&self.config).context("reading containerd's configuration")?;
        let line = format!("conf_dir = \"{}\"\n", directory.display());
        let templated =
            text.replacen(&line, &format!("{line}    conf_template = \"{}\"\n", template.display()), 1);
        anyhow::ensure!(templated != text, "no {line} in {text}");
        fs::write(&self.config, templated).context("writing containerd's configuration")?;
        Ok(range)
    }

    /// Sends it a signal, e.g. SIGSTOP, which looks to clients like an overloaded machine.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).context("a pid out of range")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("sending {signal} to containerd"))
    }

    /// Waits until the CRI responds.
    pub(super) async fn wait_until_it_answers(&self) -> Result<()> {
        wait_for("containerd answers", START_TIMEOUT, async || {
            Ok(match lib("containerd_answers", [&self.socket]) {
                Ok(_) => Look::Done(()),
                Err(error) => Look::NotYet(format!("{error:#}\n{}", self.log_tail())),
            })
        })
        .await
    }
}

/// The directory of networks' configurations.
fn networks(dirs: &Dirs) -> PathBuf {
    dirs.state.join("cni")
}

/// The configuration of the pods' network.
fn network(dirs: &Dirs) -> PathBuf {
    networks(dirs).join("10-pods.conflist")
}

fn write_config(dirs: &Dirs, config: &Path, pods: &str) -> Result<()> {
    let networks = networks(dirs);
    fs::create_dir_all(&networks).with_context(|| format!("creating {}", networks.display()))?;
    let pods_network = lib("cni_config", [&dirs.id, BRIDGE, pods, &dirs.addresses().to_string_lossy()])?;
    let text = lib(
        "containerd_config",
        [dirs.containerd_root().as_path(), &dirs.containerd_state(), &networks, Path::new("false")],
    )?;
    for (path, text) in [(network(dirs), pods_network), (config.to_path_buf(), text)] {
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn spawn(netns: &Netns, config: &Path, log: &Path) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("opening {}", log.display()))?;
    netns
        .command("containerd")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("a second handle of containerd's log")?)
        .stderr(log)
        .spawn()
        .context("starting containerd (integration/test.sh installs what is missing)")
}

/// The archive of the pause image, once a host has been started.
pub fn pause_archive() -> Result<PathBuf> {
    Ok(images_dir()?.join("pause.tar"))
}

/// The first two numbers of the version of the containerd in `PATH`.
pub fn containerd_version() -> Result<(u32, u32)> {
    let text = lib::<&str>("containerd_version", [])?;
    let mut numbers = text.trim().split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("containerd has the version {text}"),
    }
}

/// The directory of built images, kept between runs: in cargo's target directory, else in the source tree's.
fn images_dir() -> Result<PathBuf> {
    let profile = profile_dir()?;
    let target = profile.parent().unwrap_or_else(|| integration_dir());
    Ok(target.join("hostlet-images"))
}

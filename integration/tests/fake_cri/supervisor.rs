//! The daemon under a service manager that is this test: readiness, status line, reload, stop and watchdog.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{SOON, wait_until_ready, write_pods};

/// The receiving end of `NOTIFY_SOCKET`.
struct Manager {
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Manager {
    /// A manager without a daemon, and the path of its socket.
    fn listen(host: &FakeHost) -> Result<(Self, String)> {
        let path = host.directory().join("notify");
        let socket = UnixDatagram::bind(&path).context("binding the socket")?;
        socket.set_nonblocking(true)?;
        let path = path.to_str().context("a path")?.to_owned();
        Ok((Self { socket, received: Vec::new() }, path))
    }

    /// A daemon under this manager, with these further variables.
    async fn start(host: &FakeHost, variables: &[(&str, &str)], extra: &str) -> Result<(Self, Daemon)> {
        let (manager, path) = Self::listen(host)?;
        let variables: Vec<_> =
            [("NOTIFY_SOCKET", &*path)].into_iter().chain(variables.iter().copied()).collect();
        let daemon = host.start_supervised(&variables, extra).await?;
        Ok((manager, daemon))
    }

    /// The assignments received so far, in order.
    fn received(&mut self) -> &[String] {
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            self.received.extend(text.lines().map(str::to_owned));
        }
        &self.received
    }

    /// Waits for an assignment, which may have been received already.
    async fn wait_for(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        wait_for(what, SOON, async || {
            let received = self.received();
            Ok(match received.iter().any(|line| wanted(line)) {
                true => Look::Done(()),
                false => Look::NotYet(format!("{received:?}")),
            })
        })
        .await
    }

    fn count(&mut self, assignment: &str) -> usize {
        self.received().iter().filter(|line| *line == assignment).count()
    }
}

fn signal(daemon: &Daemon, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(i32::try_from(daemon.pid())?), signal)?)
}

async fn wait_for_log(daemon: &Daemon, text: &str) -> Result<()> {
    wait_for(text, SOON, async || {
        let log = daemon.log();
        Ok(if log.contains(text) { Look::Done(()) } else { Look::NotYet(log) })
    })
    .await
}

#[tokio::test]
async fn readiness_status_and_stop_are_reported_and_no_runtime_is_waited_for() {
    let mut host = FakeHost::start().unwrap();
    host.runtime().add_image("busybox:1");
    // A first start waits for its decision, this one for nothing.
    host.start_hostlet("").await.unwrap().stop().await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    host.cri.crash();
    let (mut manager, daemon) = Manager::start(&host, &[], "").await.unwrap();
    manager.wait_for("readiness", |line| line == "READY=1").await.unwrap();
    let waits = |line: &str| line.starts_with("STATUS=waiting for the container runtime since ");
    manager.wait_for("that the runtime is waited for", waits).await.unwrap();
    host.cri.resume().unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    manager.wait_for("the pod", |line| line == "STATUS=1 pod, 1 running").await.unwrap();
    host.cri.crash();
    let away = |line: &str| {
        line.starts_with("STATUS=1 pod, 1 running; the container runtime does not respond since ")
    };
    manager.wait_for("that the runtime is away", away).await.unwrap();
    assert_eq!(manager.count("WATCHDOG=1"), 0, "nobody asked for it");
    assert!(daemon.stop().await.unwrap().success());
    assert_eq!(manager.count("STOPPING=1"), 1);
    assert_eq!(manager.count("READY=1"), 1);
}

#[tokio::test]
async fn a_refused_first_start_is_never_ready() {
    let host = FakeHost::start().unwrap();
    fs::create_dir_all(host.directory().join("kubelet/pods/of-others/volumes")).unwrap();
    let (mut manager, path) = Manager::listen(&host).unwrap();
    let ended = host.run_supervised_until_it_ends(&[("NOTIFY_SOCKET", &*path)]).await.unwrap();
    assert_eq!(ended.code(), Some(78), "{}", host.log());
    assert_eq!((manager.count("READY=1"), manager.count("STOPPING=1")), (0, 1));
}

#[tokio::test]
async fn the_watchdog_is_fed_while_the_runtime_is_frozen_and_only_for_this_process() {
    let mut host = FakeHost::start().unwrap();
    let (mut manager, _daemon) = Manager::start(&host, &[("WATCHDOG_USEC", "3000000")], "").await.unwrap();
    host.cri.crash();
    wait_for("ten feeds, one a second", SOON, async || {
        let fed = manager.count("WATCHDOG=1");
        Ok(if fed >= 10 { Look::Done(()) } else { Look::NotYet(fed.to_string()) })
    })
    .await
    .unwrap();

    let other = FakeHost::start().unwrap();
    let of_another = [("WATCHDOG_USEC", "300000"), ("WATCHDOG_PID", "1")];
    let (mut manager, _daemon) = Manager::start(&other, &of_another, "").await.unwrap();
    manager.wait_for("a status", |line| line == "STATUS=0 pods, 0 running").await.unwrap();
    assert_eq!(manager.count("WATCHDOG=1"), 0);
}

#[tokio::test]
async fn a_reload_applies_what_it_can_and_names_the_rest() {
    let host = FakeHost::start().unwrap();
    let (mut manager, daemon) = Manager::start(&host, &[], "maxPods: 7\n").await.unwrap();
    let config = host.directory().join("config.yaml");
    let started_with = fs::read_to_string(&config).unwrap();
    manager.wait_for("readiness", |line| line == "READY=1").await.unwrap();

    let changed = "maxPods: 8\nsyncFrequency: 50s\nlogging: {verbosity: 4}\n";
    fs::write(&config, started_with.replace("maxPods: 7\n", changed)).unwrap();
    signal(&daemon, Signal::SIGHUP).unwrap();
    for field in ["maxPods", "syncFrequency"] {
        wait_for_log(&daemon, &format!("{field} was changed and needs a restart of hostlet")).await.unwrap();
    }
    wait_for_log(&daemon, "configuration reloaded").await.unwrap();
    assert!(daemon.log().contains("applied=\"logging.verbosity\""), "{}", daemon.log());
    assert!(!daemon.log().contains("logging.verbosity was changed"), "{}", daemon.log());
    manager.wait_for("the reload", |line| line.starts_with("MONOTONIC_USEC=")).await.unwrap();
    let needed = |line: &str| line.ends_with("; a changed setting needs a restart");
    manager.wait_for("that a restart is needed", needed).await.unwrap();
    assert_eq!((manager.count("RELOADING=1"), manager.count("READY=1")), (1, 2));

    fs::write(&config, started_with.replace("maxPods: 7\n", "maxPod: 8\n")).unwrap();
    signal(&daemon, Signal::SIGHUP).unwrap();
    let invalid = |line: &str| line.contains("the configuration file is invalid");
    manager.wait_for("that it is invalid", invalid).await.unwrap();
    wait_for_log(&daemon, "the configuration is invalid, nothing was changed").await.unwrap();
    let log = daemon.log();
    let line = log.lines().find(|line| line.contains("nothing was changed")).unwrap();
    assert!(line.contains("config.yaml:") && line.contains("maxPods"), "{line}");

    // The daemon goes on, and back to what it started with nothing needs a restart.
    fs::write(&config, &started_with).unwrap();
    signal(&daemon, Signal::SIGHUP).unwrap();
    wait_for("three reloads", SOON, async || {
        let reloads = manager.count("RELOADING=1");
        let done = reloads == 3 && manager.count("READY=1") == 4;
        Ok(if done { Look::Done(()) } else { Look::NotYet(format!("{:?}", manager.received())) })
    })
    .await
    .unwrap();
    manager.wait_for("a plain status", |line| line == "STATUS=0 pods, 0 running").await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), daemon.stop()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hang_up_without_a_service_manager_reloads_too() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    signal(&daemon, Signal::SIGHUP).unwrap();
    wait_for_log(&daemon, "configuration reloaded").await.unwrap();
    daemon.pods().unwrap();
}

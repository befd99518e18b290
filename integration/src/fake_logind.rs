//! A scripted systemd-logind on a private D-Bus daemon, for the real daemon: its address goes into `DBUS_SYSTEM_BUS_ADDRESS`. The
//! locks are pipes like logind's, so that they outlive the bus.

use std::fs;
use std::os::fd::OwnedFd as StdFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use parking_lot::Mutex;
use tempfile::TempDir;
use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, MessageIterator};
use zbus::object_server::SignalEmitter;
use zbus::zvariant::OwnedFd;

use crate::wait::{Look, wait_for};

const SERVICE: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const SYSTEMD: &str = "org.freedesktop.systemd1";
const SYSTEMD_PATH: &str = "/org/freedesktop/systemd1";

/// A bus starts in milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A delay lock that was given.
#[derive(Debug)]
pub struct Lock {
    /// `what`, `who`, `why` and `mode` of the request.
    pub request: [String; 4],
    /// Ends when the holder closes its end.
    end: StdFd,
}

impl Lock {
    /// Whether its holder still has it.
    pub fn is_held(&self) -> bool {
        // Nothing is ever written: reading finds the end, or would block.
        nix::unistd::read(&self.end, &mut [0]) == Err(Errno::EAGAIN)
    }
}

#[derive(Debug, Default)]
struct State {
    delay: Duration,
    is_preparing: bool,
    locks: Vec<Lock>,
    reloads: u32,
    /// The file that it reads on a reload.
    config: Option<PathBuf>,
}

impl State {
    /// Reads the configuration. Without a valid one nothing changes.
    fn reload(&mut self) {
        self.reloads += 1;
        let text = self.config.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let seconds = text.lines().find_map(|line| line.strip_prefix("InhibitDelayMaxSec=")?.parse().ok());
        self.delay = seconds.map_or(self.delay, Duration::from_secs);
    }
}

/// logind with its bus. Dropping it ends both.
#[derive(Debug)]
pub struct FakeLogind {
    directory: TempDir,
    state: Arc<Mutex<State>>,
    bus: Option<Child>,
    connection: Option<Connection>,
}

impl FakeLogind {
    /// Starts a logind that delays a shutdown up to this long.
    pub async fn start(delay: Duration) -> Result<Self> {
        let mut logind = Self::without_bus(delay)?;
        logind.resume().await?;
        Ok(logind)
    }

    /// The same, while the bus does not run yet.
    pub fn without_bus(delay: Duration) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a directory for a bus")?;
        let state = Arc::new(Mutex::new(State { delay, ..State::default() }));
        Ok(Self { directory, state, bus: None, connection: None })
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("bus")
    }

    /// The address of the bus.
    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }

    /// Ends the bus, as a crash. Locks stay with their holders.
    pub fn crash_bus(&mut self) -> Result<()> {
        self.connection = None;
        if let Some(mut bus) = self.bus.take() {
            bus.kill().context("killing dbus-daemon")?;
            bus.wait().context("waiting for dbus-daemon")?;
        }
        Ok(())
    }

    /// Starts the bus, and logind on it.
    pub async fn resume(&mut self) -> Result<()> {
        self.crash_bus()?;
        let config = self.directory.path().join("bus.conf");
        let text = format!(
            r#"<busconfig>
  <type>system</type>
  <listen>{}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
</busconfig>
"#,
            self.address()
        );
        fs::write(&config, text).context("writing the configuration of a bus")?;
        // It ends when the test does, even one that is killed and can drop nothing.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "dbus-daemon", "--nofork", "--nopidfile"]);
        command.arg(format!("--config-file={}", config.display())).stdin(Stdio::null());
        self.bus = Some(command.spawn().context("starting dbus-daemon: is the package dbus installed?")?);
        let address = self.address();
        let serve = || -> Result<Connection> {
            let manager = Manager(self.state.clone());
            let systemd = Systemd(self.state.clone());
            let builder = Builder::address(address.as_str())?.serve_at(PATH, manager)?;
            let builder = builder.serve_at(SYSTEMD_PATH, systemd)?;
            Ok(builder.name(SYSTEMD)?.name(SERVICE)?.build()?)
        };
        let connection = wait_for("the private bus", START_TIMEOUT, async || Ok(Look::Done(serve()?)));
        self.connection = Some(connection.await?);
        Ok(())
    }

    /// Sends `PrepareForShutdown`: a shutdown begins, or is cancelled.
    pub fn prepare(&self, is_preparing: bool) -> Result<()> {
        prepare(self.connection()?, &self.state, is_preparing)
    }

    /// Makes what anybody sends as `PrepareForShutdown` true, as long as the bus runs. Kubernetes' tests send it in logind's place, whose
    /// state hostlet asks for.
    pub fn obey_signals(&self) -> Result<()> {
        let (connection, state) = (self.connection()?.clone(), self.state.clone());
        let listener = Builder::address(self.address().as_str())?.build().context("connecting to the bus")?;
        let rule = format!("type='signal',path='{PATH}',interface='{MANAGER}',member='PrepareForShutdown'");
        let signals = MessageIterator::for_match_rule(&*rule, &listener, None).context("listening")?;
        thread::spawn(move || {
            for signal in signals.flatten() {
                let is_own = signal.header().sender().map(|name| name.as_str())
                    == connection.unique_name().map(|name| name.as_str());
                let Ok(is_preparing) = signal.body().deserialize::<bool>() else { continue };
                if !is_own && prepare(&connection, &state, is_preparing).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn connection(&self) -> Result<&Connection> {
        self.connection.as_ref().context("the bus does not run")
    }

    /// Changes the state without a signal, as a reboot does.
    pub fn boot(&self) {
        self.state.lock().is_preparing = false;
    }

    /// Reads this file on each reload.
    pub fn set_config(&self, file: PathBuf) {
        self.state.lock().config = Some(file);
    }

    /// The requests of the locks that are held.
    pub fn held(&self) -> Vec<[String; 4]> {
        let state = self.state.lock();
        state.locks.iter().filter(|lock| lock.is_held()).map(|lock| lock.request.clone()).collect()
    }

    /// How many locks were given so far.
    pub fn given(&self) -> usize {
        self.state.lock().locks.len()
    }

    /// How often logind read its configuration again.
    pub fn reloads(&self) -> u32 {
        self.state.lock().reloads
    }

    /// Waits until this many locks are held.
    pub async fn wait_for_locks(&self, count: usize, timeout: Duration) -> Result<()> {
        wait_for(&format!("{count} locks held"), timeout, async || {
            let held = self.held();
            Ok(if held.len() == count { Look::Done(()) } else { Look::NotYet(format!("{held:?}")) })
        })
        .await
    }
}

impl Drop for FakeLogind {
    fn drop(&mut self) {
        // A bus that is gone already needs no end.
        let _ = self.crash_bus();
    }
}

/// Sends `PrepareForShutdown`, for a state that has begun.
fn prepare(connection: &Connection, state: &Mutex<State>, is_preparing: bool) -> Result<()> {
    state.lock().is_preparing = is_preparing;
    connection
        .emit_signal(None::<&str>, PATH, MANAGER, "PrepareForShutdown", &(is_preparing,))
        .context("sending a signal")
}

struct Manager(Arc<Mutex<State>>);

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Manager {
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> u64 {
        u64::try_from(self.0.lock().delay.as_micros()).unwrap_or(u64::MAX)
    }

    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> bool {
        self.0.lock().is_preparing
    }

    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::fdo::Result<OwnedFd> {
        let failed = |error: nix::Error| zbus::fdo::Error::Failed(error.to_string());
        let (end, held) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(failed)?;
        let request = [what, who, why, mode].map(str::to_owned);
        self.0.lock().locks.push(Lock { request, end });
        Ok(OwnedFd::from(held))
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(emitter: &SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

struct Systemd(Arc<Mutex<State>>);

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    fn kill_unit(&self, name: &str, _who: &str, signal: i32) -> zbus::fdo::Result<()> {
        if name != "systemd-logind.service" || signal != 1 {
            return Err(zbus::fdo::Error::InvalidArgs(format!("{name} {signal}")));
        }
        self.0.lock().reload();
        Ok(())
    }
}

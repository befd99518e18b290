//! Sends notifications to the service manager. Without `NOTIFY_SOCKET` there is none, and nothing happens.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;

/// What is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The daemon serves.
    Ready,
    /// It reloads its configuration; [`Notify::Ready`] follows.
    Reloading,
    /// It stops.
    Stopping,
    /// A line about its state, for people.
    Status(String),
    /// Its main loops are alive.
    Watchdog,
}

/// The connection to the service manager. Cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    send: Arc<dyn Fn(Notify) + Send + Sync>,
    /// How often [`Notify::Watchdog`] is due; `None` if never.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The service manager of this process; `None` without one. Reads the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC` and
    /// `WATCHDOG_PID`).
    pub fn from_environment() -> Option<Self> {
        std::env::var_os("NOTIFY_SOCKET")?;
        let watchdog = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Some(Self::new(send, watchdog))
    }

    /// Sends through `send`. `watchdog` is how often [`Notify::Watchdog`] is due.
    pub fn new(send: impl Fn(Notify) + Send + Sync + 'static, watchdog: Option<Duration>) -> Self {
        Self { send: Arc::new(send), watchdog }
    }

    /// Sends a notification. A failure is logged; the next one may succeed.
    pub fn send(&self, notify: Notify) {
        (self.send)(notify);
    }

    /// How often [`Notify::Watchdog`] is due; `None` if never.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }
}

fn send(notify: Notify) {
    let sent = match &notify {
        Notify::Ready => sd_notify::notify(&[NotifyState::Ready]),
        // systemd compares the time with that of its own request (systemd.service(5), notify-reload).
        Notify::Reloading => match NotifyState::monotonic_usec_now() {
            Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
            Err(_) => sd_notify::notify(&[NotifyState::Reloading]),
        },
        Notify::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Notify::Status(line) => sd_notify::notify(&[NotifyState::Status(line)]),
        Notify::Watchdog => sd_notify::notify(&[NotifyState::Watchdog]),
    };
    if let Err(error) = sent {
        tracing::debug!(%error, ?notify, "cannot notify the service manager");
    }
}

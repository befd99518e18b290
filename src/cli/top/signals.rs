//! The signals that end the live view.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Why the view is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By Ctrl-C or its like.
    Interrupted,
    /// By another program, or because the terminal is gone.
    Terminated,
}

/// The signals since this was made.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one. Cancel-safe.
    pub(super) async fn any(&mut self) -> Ending {
        tokio::select! {
            // Cancel-safe, all: a signal is taken only when `recv` returns.
            _ = self.interrupt.recv() => Ending::Interrupted,
            _ = self.terminate.recv() => Ending::Terminated,
            _ = self.hang_up.recv() => Ending::Terminated,
        }
    }
}

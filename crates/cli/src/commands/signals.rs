//! The signals that ask a command to end.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Those that end a process by default and are sent for that.
const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// The signals since this was made.
pub(super) struct EndingSignals([(Signal, unix::Signal); 4]);

impl EndingSignals {
    /// From now on these signals no longer end the process.
    pub(super) fn new() -> io::Result<Self> {
        let [a, b, c, d] = ENDING;
        let of =
            |which: Signal| Ok::<_, io::Error>((which, unix::signal(SignalKind::from_raw(which as i32))?));
        Ok(Self([of(a)?, of(b)?, of(c)?, of(d)?]))
    }

    /// Waits for one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let come = |(which, signal): &mut (Signal, unix::Signal)| {
                signal.poll_recv(context).is_ready().then_some(*which)
            };
            self.0.iter_mut().find_map(come).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

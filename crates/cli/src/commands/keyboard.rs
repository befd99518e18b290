//! The input of a command in a container: this process's own, the size of its terminal, and the keys that leave it.

use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use hostlet_runtime::cri::StdStreams;
use hostlet_runtime::streaming::Input;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::terminal;

/// Size of a read, in bytes.
const BUFFER: usize = 32 << 10;

/// Reads that wait to be sent.
const WAITING: usize = 4;

/// The keys that leave a terminal, as on other consoles of a systemd host: Ctrl-] three times within a second.
#[derive(Debug, Default)]
struct DetachKeys {
    /// How many were pressed in sequence, and when the first of them.
    pressed: Option<(u8, Instant)>,
}

impl DetachKeys {
    const KEY: u8 = 0x1d;
    const WITHIN: Duration = Duration::from_secs(1);

    /// Whether these bytes complete the sequence.
    fn complete(&mut self, bytes: &[u8], now: Instant) -> bool {
        for byte in bytes {
            self.pressed = match self.pressed {
                _ if *byte != Self::KEY => None,
                Some((2, first)) if now - first <= Self::WITHIN => return true,
                Some((1, first)) if now - first <= Self::WITHIN => Some((2, first)),
                Some(_) | None => Some((1, now)),
            };
        }
        false
    }
}

/// The input.
pub(super) struct Keyboard {
    streams: StdStreams,
    stdin: mpsc::Receiver<Bytes>,
    has_ended: bool,
    /// The size is sent at first, and after each signal.
    must_send_size: bool,
    resized: Signal,
    keys: DetachKeys,
}

impl Keyboard {
    /// Begins to read.
    pub(super) fn new(streams: StdStreams) -> io::Result<Self> {
        let (sender, stdin) = mpsc::channel(WAITING);
        if streams.stdin {
            // Nothing can cancel a read of a terminal. The thread ends with the process.
            std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read(&sender))?;
        }
        Ok(Self {
            streams,
            stdin,
            has_ended: !streams.stdin,
            must_send_size: streams.tty,
            resized: signal(SignalKind::window_change())?,
            keys: DetachKeys::default(),
        })
    }

    /// Everything for the session, until the user detaches.
    pub(super) fn inputs(self) -> impl Stream<Item = Input> {
        unfold(self, async |mut keyboard| Some((keyboard.next().await?, keyboard)))
    }

    async fn next(&mut self) -> Option<Input> {
        loop {
            if std::mem::take(&mut self.must_send_size)
                && let Some(size) = terminal::size()
            {
                return Some(Input::Resize(size));
            }
            tokio::select! {
                // Cancel-safe, both: bytes and signals are taken only when returned.
                read = self.stdin.recv(), if !self.has_ended => return self.typed(read),
                _ = self.resized.recv() => self.must_send_size = self.streams.tty,
            }
        }
    }

    fn typed(&mut self, read: Option<Bytes>) -> Option<Input> {
        match read {
            Some(bytes) if self.streams.tty && self.keys.complete(&bytes, Instant::now()) => None,
            Some(bytes) => Some(Input::Stdin(bytes)),
            None => {
                self.has_ended = true;
                Some(Input::StdinEnd)
            }
        }
    }
}

/// Reads the standard input until its end. An error is an end, as for any program.
fn read(to: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; BUFFER];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                if to.blocking_send(Bytes::copy_from_slice(&buffer[..read])).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_keys_within_a_second_detach() {
        let begin = Instant::now();
        let completes = |presses: &[(&[u8], u64)]| {
            let mut keys = DetachKeys::default();
            let mut done =
                presses.iter().map(|(bytes, at)| keys.complete(bytes, begin + Duration::from_millis(*at)));
            done.any(|done| done)
        };
        assert!(completes(&[(b"\x1d", 0), (b"\x1d", 400), (b"\x1d", 1000)]));
        assert!(completes(&[(b"ls\x1d\x1d\x1d", 0)]));
        assert!(!completes(&[(b"\x1d", 0), (b"\x1d", 400), (b"\x1d", 1001)]));
        assert!(!completes(&[(b"\x1d\x1dx\x1d", 0)]));
        assert!(completes(&[(b"\x1d", 0), (b"\x1d", 2000), (b"\x1d", 2100), (b"\x1d", 2200)]));
    }
}

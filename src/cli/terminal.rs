//! The terminal of a command that passes it on to another one.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::streaming::TerminalSize;

/// The terminal on the standard input in raw mode. Restored when dropped.
pub(super) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Sets it.
    pub(super) fn set() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The size of the terminal on the standard input; `None` if it has none.
pub(super) fn size() -> Option<TerminalSize> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    Some(TerminalSize { width: size.ws_col, height: size.ws_row })
}

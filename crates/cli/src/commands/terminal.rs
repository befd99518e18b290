//! The terminal of a command that passes it on to another one.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use hostlet_runtime::streaming::TerminalSize;

/// The settings of a terminal before a program changes them. Restored when dropped, however that program ended.
pub(super) struct SavedTerminal<T: AsFd = io::Stdin> {
    terminal: T,
    before: Termios,
}

impl SavedTerminal {
    /// Saves those of the terminal on the standard input.
    pub(super) fn of_stdin() -> io::Result<Self> {
        Self::of(io::stdin())
    }
}

impl<T: AsFd> SavedTerminal<T> {
    fn of(terminal: T) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        Ok(Self { terminal, before })
    }

    /// Sets the terminal to raw mode.
    pub(super) fn into_raw(self) -> io::Result<Self> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(&self.terminal, OptionalActions::Now, &raw)?;
        Ok(self)
    }
}

impl<T: AsFd> Drop for SavedTerminal<T> {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The size of the terminal on the standard input; `None` if it has none.
pub(super) fn size() -> Option<TerminalSize> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    Some(TerminalSize { width: size.ws_col, height: size.ws_row })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::termios::LocalModes;

    use super::*;

    #[test]
    fn a_terminal_is_restored_whoever_changed_it() {
        // The settings of a pseudo-terminal, which both of its sides have.
        let terminal = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        let has_echo = || tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO);
        assert!(has_echo());
        let saved = SavedTerminal::of(&terminal).unwrap();
        let killed = SavedTerminal::of(&terminal).unwrap().into_raw().unwrap();
        assert!(!has_echo());
        std::mem::forget(killed);
        drop(saved);
        assert!(has_echo());
    }
}

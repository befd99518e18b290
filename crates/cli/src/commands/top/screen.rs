//! The terminal while the live view has it. It is restored whatever ends the view.

use std::io::{self, Stdout, stdout};
use std::panic;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{Event, EventStream};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use futures::StreamExt;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::draw::draw;
use super::model::Model;
use crate::commands::table::Color;

/// The terminal in raw mode with its alternate screen. Restored when dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    events: EventStream,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        // Cleared, because some consoles have no alternate screen.
        let entered = execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match entered {
            Ok(terminal) => Ok(Self { terminal, events: EventStream::new() }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Shows the view. Only cells that changed are written.
    pub(super) fn draw(&mut self, model: &Model, color: Color) -> io::Result<()> {
        self.terminal.draw(|frame| draw(model, color, frame.buffer_mut()))?;
        Ok(())
    }

    /// The next key or change of the size; `None` without a terminal. Cancel-safe.
    pub(super) async fn event(&mut self) -> Option<io::Result<Event>> {
        self.events.next().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Fails only if the terminal is gone.
    let _ = execute!(stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Restores the terminal before the message of a panic is printed, which would be lost with the alternate screen.
pub(super) fn restore_on_panic() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        restore();
        previous(panic);
    }));
}

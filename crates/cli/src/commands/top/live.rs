//! The live view: keys, pods and measurements as they come, each drawn at once.

use std::pin::pin;

use crossterm::event::{Event, KeyEventKind};
use futures::StreamExt;
use futures::stream::LocalBoxStream;
use jiff::Timestamp;

use super::args::TopArgs;
use super::feeds::{text, usages, views};
use super::keys::Request;
use super::model::Model;
use super::screen::{Screen, restore_on_panic};
use super::shell::shell;
use crate::commands::client::view;
use crate::commands::error::CommandError;
use crate::commands::exit::Exit;
use crate::commands::pods::color;
use crate::commands::signals::EndingSignals;

/// Pieces of a log that are drawn together, if they come together.
const PIECES: usize = 64;

/// The text that is shown, as it comes.
type Coming = LocalBoxStream<'static, Vec<Vec<String>>>;

/// Shows the pods until the user leaves.
pub(super) async fn live(args: &TopArgs) -> Result<Exit, CommandError> {
    let socket = args.daemon.socket();
    // Without a daemon there is nothing to look at.
    let first = view(&socket).await?;
    let mut views = pin!(views(socket.clone()));
    let mut usages = pin!(usages(socket.clone()));
    let mut signals = EndingSignals::new()?;
    restore_on_panic();
    let mut screen = Screen::enter()?;
    let mut model = Model::new(args.sort_by, screen.size()?);
    model.observe(Ok(first), Timestamp::now());
    let mut coming: Option<Coming> = None;
    let color = color();
    loop {
        screen.draw(&model, color)?;
        tokio::select! {
            // Cancel-safe, all: streams and signals give something up only when they return it.
            event = screen.event() => {
                let Some(event) = event else { return Ok(Exit::Ok) };
                match apply(&mut model, event?) {
                    Some(Request::Quit) => return Ok(Exit::Ok),
                    Some(Request::Fetch(subject)) => {
                        coming = Some(text(socket.clone(), &subject).ready_chunks(PIECES).boxed_local());
                    }
                    Some(Request::Shell(target)) => {
                        drop(screen);
                        model.note = match shell(&socket, &target, &mut signals).await {
                            Ok(Some(note)) => Some(note),
                            Ok(None) => return Ok(Exit::Ok),
                            Err(error) => Some(format!("cannot run a shell: {error}")),
                        };
                        screen = Screen::enter()?;
                        model.size = screen.size()?;
                    }
                    // A text that was left is no longer read.
                    None if model.text_mut().is_none() => coming = None,
                    None => {}
                }
            }
            Some(view) = views.next() => model.observe(view, Timestamp::now()),
            Some(usage) = usages.next() => model.measure(usage, Timestamp::now()),
            lines = next(&mut coming) => match (lines, model.text_mut()) {
                (Some(lines), Some(text)) => text.extend(lines.into_iter().flatten()),
                // It is complete, or no longer shown.
                (None, _) | (_, None) => coming = None,
            },
            _ = signals.next() => return Ok(Exit::Ok),
        }
    }
}

fn apply(model: &mut Model, event: Event) -> Option<Request> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => model.press(key),
        Event::Resize(columns, lines) => {
            model.size = (columns, lines);
            None
        }
        _ => None,
    }
}

/// The next lines of the text; never without one.
async fn next(coming: &mut Option<Coming>) -> Option<Vec<Vec<String>>> {
    match coming {
        Some(coming) => coming.next().await,
        None => std::future::pending().await,
    }
}

//! Which of the two outputs the command has.

use std::io::{self, IsTerminal};

use super::args::TopArgs;
use super::live::live;
use super::plain::plain;
use crate::commands::error::CommandError;
use crate::commands::exit::Exit;

/// Runs `hostlet top`.
pub async fn top(args: TopArgs) -> Result<Exit, CommandError> {
    let is_live = args.output.is_none() && io::stdout().is_terminal() && io::stdin().is_terminal();
    if is_live { live(&args).await } else { plain(&args).await }
}

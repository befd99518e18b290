//! `hostlet completions`: generates shell completions. Needs no daemon.

use std::io::{self, Write};

use clap::{Args, Command, ValueEnum};
use clap_complete::generate;

use super::exit::Exit;

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// For `/etc/bash_completion.d`, or `source <(hostlet completions bash)`.
    Bash,
    /// For a directory of `$fpath`, as `_hostlet`.
    Zsh,
    /// For `~/.config/fish/completions`, as `hostlet.fish`.
    Fish,
}

/// Arguments of `hostlet completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Prints the completions of `command`.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> io::Result<Exit> {
    let name = command.get_name().to_owned();
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    // Buffered, because the generator panics if the output is closed.
    let mut script = Vec::new();
    generate(shell, &mut command, name, &mut script);
    io::stdout().write_all(&script).map(|()| Exit::Ok)
}

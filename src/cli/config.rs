//! `hostlet config`: checks configuration files and shows the effective configuration. Starts nothing.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::Exit;
use crate::config::{ConfigErrors, KubeletFlags, Loaded, load};

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file like the daemon at start-up
    Check(CheckArgs),
    /// Print the effective configuration, including defaults
    Show(Box<KubeletFlags>),
}

/// Arguments of `hostlet config check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The file: KubeletConfiguration, HostletConfiguration or both, as YAML or JSON
    pub file: PathBuf,
    /// A directory of drop-ins to merge over it
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
}

/// Runs `hostlet config`.
pub fn config(command: ConfigCommand, hostname: &str, is_called_kubelet: bool) -> io::Result<Exit> {
    match command {
        ConfigCommand::Check(args) => {
            let mut flags = KubeletFlags { is_called_kubelet, ..KubeletFlags::default() };
            flags.process.config = Some(args.file.clone());
            flags.process.config_dir = args.config_dir;
            match load(&flags, hostname) {
                Ok(loaded) => {
                    warn(&loaded)?;
                    writeln!(io::stdout(), "{}: fine", args.file.display())?;
                    Ok(Exit::Ok)
                }
                Err(errors) => print_errors(&errors),
            }
        }
        ConfigCommand::Show(flags) => match load(&KubeletFlags { is_called_kubelet, ..*flags }, hostname) {
            Ok(loaded) => {
                warn(&loaded)?;
                write!(io::stdout(), "{}", loaded.effective)?;
                Ok(Exit::Ok)
            }
            Err(errors) => print_errors(&errors),
        },
    }
}

/// Prints fields without effect to stderr, so that scripts can parse stdout.
fn warn(loaded: &Loaded) -> io::Result<()> {
    for warning in &loaded.warnings {
        writeln!(io::stderr(), "warning: {warning}")?;
    }
    Ok(())
}

fn print_errors(errors: &ConfigErrors) -> io::Result<Exit> {
    writeln!(io::stderr(), "{errors}")?;
    Ok(Exit::Usage)
}

//! `hostlet config`: checks configuration files and shows the effective configuration. Starts nothing.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hostlet_config::{ConfigErrors, KubeletFlags, Loaded, load};
use hostlet_host::DaemonUnit;

use super::error::CommandError;
use super::exit::Exit;
use super::service_flags::service_flags;

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file like the daemon at start-up
    Check(CheckArgs),
    /// Print the effective configuration, including defaults
    Show(Box<ShowArgs>),
}

/// Arguments of `hostlet config check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The file: KubeletConfiguration, HostletConfiguration or both, as YAML or JSON
    #[arg(required_unless_present = "service")]
    pub file: Option<PathBuf>,
    /// A directory of drop-ins to merge over it
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// Check the flags and the configuration of the packaged service instead
    #[arg(long, exclusive = true)]
    pub service: bool,
}

/// Arguments of `hostlet config show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// Flags that override the files, as the daemon would have them.
    #[command(flatten)]
    pub flags: KubeletFlags,
    /// Print the configuration of the packaged service, with its flags
    #[arg(long, exclusive = true)]
    pub service: bool,
}

/// Runs `hostlet config`.
pub fn config(command: ConfigCommand, hostname: &str, is_called_kubelet: bool) -> Result<Exit, CommandError> {
    match command {
        ConfigCommand::Check(args) => {
            let (flags, what) = match args.file {
                Some(file) => {
                    let mut flags = KubeletFlags { is_called_kubelet, ..KubeletFlags::default() };
                    flags.process.config = Some(file.clone());
                    flags.process.config_dir = args.config_dir;
                    (flags, file.display().to_string())
                }
                None => {
                    let unit = DaemonUnit::of(Path::new("/")).name();
                    (service_flags(Path::new("/"))?, format!("flags and configuration of {unit}"))
                }
            };
            match load(&flags, hostname) {
                Ok(loaded) => {
                    warn(&loaded)?;
                    writeln!(io::stdout(), "{what}: fine")?;
                    Ok(Exit::Ok)
                }
                Err(errors) => Ok(print_errors(&errors)?),
            }
        }
        ConfigCommand::Show(args) => {
            let flags = match args.service {
                true => service_flags(Path::new("/"))?,
                false => KubeletFlags { is_called_kubelet, ..args.flags },
            };
            match load(&flags, hostname) {
                Ok(loaded) => {
                    warn(&loaded)?;
                    if args.service {
                        // The one flag without a field that a purge needs: the packages keep this output for it.
                        writeln!(io::stdout(), "# --root-dir={}", loaded.config.root_dir.display())?;
                    }
                    write!(io::stdout(), "{}", loaded.effective)?;
                    Ok(Exit::Ok)
                }
                Err(errors) => Ok(print_errors(&errors)?),
            }
        }
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

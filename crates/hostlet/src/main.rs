//! The program: reads the command line, then is the daemon or one of the commands a person types.

mod app;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};
use hostlet_base::error_chain;
use hostlet_cli::commands::{self as cli, Cli, Command, CommandError, Exit};
use hostlet_config::{KubeletFlags, Loaded, VersionForm, is_called_kubelet, load, with_plain_names};
use hostlet_host::{Host, share_one_heap};
use hostlet_telemetry::{LogTarget, TelemetryConfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::{AppError, Reload};

/// Threads for file work that blocks. More than one or two work at once only when a disk hangs.
const BLOCKING_THREADS: usize = 8;

fn main() -> ExitCode {
    let parsed = Cli::command()
        .try_get_matches_from(with_plain_names(std::env::args_os()))
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Requested help goes to stdout; everything else is a usage error.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hostlet: {error:#}");
            Exit::Failed.into()
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let is_called_kubelet = is_called_kubelet(std::env::args_os().next().as_deref());
    match cli.command {
        Some(Command::Pods(args)) => ask(cli::pods(args)),
        Some(Command::Top(args)) => ask(cli::top(args)),
        Some(Command::Explain(args)) => ask(cli::explain(args)),
        Some(Command::Timeline(args)) => ask(cli::timeline(args)),
        Some(Command::Node(args)) => ask(cli::node(args)),
        Some(Command::Events(args)) => ask(cli::events(args)),
        Some(Command::Logs(args)) => ask(cli::logs(args)),
        Some(Command::Exec(args)) => ask(cli::exec(args)),
        Some(Command::Restart(args)) => ask(cli::restart(args)),
        Some(Command::Images(args)) => ask(cli::images(args)),
        Some(Command::Plugins(args)) => ask(cli::plugins(args)),
        Some(Command::Volumes(args)) => ask(cli::volumes(args)),
        Some(Command::Claims(args)) => ask(cli::claims(args)),
        Some(Command::Devices(args)) => ask(cli::devices(args)),
        Some(Command::Doctor(args)) => ask(cli::doctor(args, hostname()?)),
        Some(Command::Purge(args)) => ask(cli::purge(args, hostname()?)),
        Some(Command::Config(command)) => report(cli::config(command, &hostname()?, is_called_kubelet)),
        Some(Command::Completions(args)) => report(cli::completions(&args, Cli::command())),
        None => match cli.flags.process.version {
            Some(form @ (VersionForm::True | VersionForm::Raw)) => {
                report(cli::version(std::env::args_os().next().as_deref(), form))
            }
            Some(VersionForm::False) | None => daemon(KubeletFlags { is_called_kubelet, ..cli.flags }),
        },
    }
}

/// Runs a command that asks the daemon.
fn ask(command: impl Future<Output = Result<Exit, CommandError>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    report(runtime.block_on(command))
}

/// Prints the error of a command.
fn report(result: Result<Exit, impl Into<CommandError>>) -> anyhow::Result<Exit> {
    result.or_else(|error| {
        let error = error.into();
        if !error.is_closed_output() {
            let _ = writeln!(std::io::stderr(), "hostlet: {}", error_chain(&error));
        }
        Ok(error.exit())
    })
}

fn hostname() -> anyhow::Result<String> {
    Host::new("/proc".as_ref()).hostname().context("finding the name of this host")
}

/// Runs the daemon until it is stopped. An invalid configuration is an error before anything runs.
fn daemon(flags: KubeletFlags) -> anyhow::Result<Exit> {
    let hostname = hostname()?;
    let Loaded { config, effective, warnings } = match load(&flags, &hostname) {
        Ok(loaded) => loaded,
        Err(errors) => {
            let _ = writeln!(std::io::stderr(), "{errors}");
            return Ok(Exit::Usage);
        }
    };
    share_one_heap();
    let format = config.logging.format;
    let verbosity = u8::try_from(config.logging.verbosity).unwrap_or(u8::MAX);
    let logs =
        hostlet_telemetry::init(TelemetryConfig { format, verbosity, target: LogTarget::detect(format) })?;
    tracing::info!(config = %effective.masked(), "Effective KubeletConfiguration");
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    // One thread is plenty: the work is waiting for the runtime and the API server. The others are for what a disk may hold
    // up; each one costs memory, and without a bound five hundred pods that start at once would have a hundred of them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let hang_up = signal(SignalKind::hangup())?;
        let reload = Reload { flags, hostname, started_with: effective, warnings, logs, hang_up };
        let daemon = app::run(config, reload, stop.clone());
        tokio::pin!(daemon);
        let stop_signal = async {
            tokio::select! {
                // Cancel-safe, both: a signal is taken only when `recv` returns.
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        tokio::select! {
            // Cancel-safe: the daemon is pinned outside and goes on below.
            ended = &mut daemon => return Ok(ended),
            () = stop_signal => stop.cancel(),
        }
        anyhow::Ok(daemon.await)
    })?;
    match ended {
        Err(AppError::Refused(refusal)) => {
            tracing::error!("{refusal}");
            Ok(Exit::Refused)
        }
        ended => Ok(ended.map(|()| Exit::Ok)?),
    }
}

#[cfg(test)]
hostlet_host::work_in_place!();

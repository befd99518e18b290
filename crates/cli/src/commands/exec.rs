//! `hostlet exec`: runs a command in a container like `kubectl exec`, and exits as it did.

use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::Args;
use hostlet_runtime::streaming::{Ended, StreamUrl, remote_command};
use hostlet_serve::server::{ExecQuery, ExecView};

use super::client::{DaemonArgs, post};
use super::error::CommandError;
use super::exit::Exit;
use super::keyboard::Keyboard;
use super::printer::printer;
use super::signals::EndingSignals;
use super::terminal::SavedTerminal;

/// Arguments of `hostlet exec`.
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    /// The pod, with or without the node's name appended, or NAMESPACE/NAME
    pub pod: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Namespace of the pod [default: any]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Pass this command's input to the command in the container
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Give the command a terminal; Ctrl-] three times within a second leaves it
    #[arg(short, long, requires = "stdin")]
    pub tty: bool,
    /// The daemon to ask
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// The command and its arguments, after --
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

impl ExecArgs {
    fn query(&self) -> ExecQuery {
        ExecQuery {
            pod: self.pod.clone(),
            namespace: self.namespace.clone(),
            container: self.container.clone(),
            stdin: self.stdin,
            tty: self.tty,
        }
    }
}

/// Runs `hostlet exec`.
pub async fn exec(args: ExecArgs) -> Result<Exit, CommandError> {
    let mut query = args.query();
    if query.tty && !io::stdin().is_terminal() {
        // kubectl's text.
        writeln!(io::stderr(), "Unable to use a TTY - input is not a terminal or the right kind of file")?;
        query.tty = false;
    }
    let view: ExecView = post(&args.daemon.socket(), "/v1/exec", &query, &args.command).await?;
    let url = StreamUrl::parse(&view.url)?;
    let streams = query.streams();
    let mut signals = EndingSignals::new()?;
    let keyboard = Keyboard::new(streams)?;
    let (output, has_written) = printer()?;
    let terminal = if query.tty { Some(SavedTerminal::of_stdin()?.into_raw()?) } else { None };
    let running = async {
        let ended = remote_command(&url, streams, keyboard.inputs(), output).await;
        // Whoever detaches does not wait for a terminal that is stopped.
        let has_left = matches!(ended, Ok(Ended::Left)) && has_written.is_empty();
        let written = if has_left { Ok(()) } else { has_written.await.unwrap_or(Ok(())) };
        (ended, written)
    };
    let done = tokio::select! {
        // Cancel-safe, both: the session ends with either, and with it the command's input.
        done = running => Ok(done),
        signal = signals.next() => Err(signal),
    };
    drop(terminal);
    let (ended, written) = match done {
        Ok(done) => done,
        // As shells report it.
        Err(signal) => return Ok(Exit::Command(128 + signal as i32)),
    };
    match written {
        // A reader such as `head` may close the output early.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    match ended? {
        Ended::Succeeded | Ended::Left => Ok(Exit::Ok),
        Ended::Exited(code) => Ok(Exit::Command(code.into())),
        Ended::Failed(why) => Err(CommandError::Exec(why)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ExecArgs,
    }

    #[test]
    fn the_command_follows_two_dashes() {
        let line = "exec web -c app -n a -it --socket /s -- sh -c --stdin";
        let args = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}")).args;
        assert_eq!(args.command, ["sh", "-c", "--stdin"]);
        let expected = ExecQuery {
            pod: "web".to_owned(),
            namespace: Some("a".to_owned()),
            container: Some("app".to_owned()),
            stdin: true,
            tty: true,
        };
        assert_eq!(args.query(), expected);
        let sent = serde_urlencoded::to_string(&expected).unwrap();
        assert_eq!(serde_urlencoded::from_str::<ExecQuery>(&sent), Ok(expected));
        assert!(Line::try_parse_from(["exec", "web"]).is_err());
        assert!(Line::try_parse_from(["exec", "web", "ls"]).is_err());
        assert!(Line::try_parse_from(["exec", "web", "-t", "--", "sh"]).is_err());
    }
}

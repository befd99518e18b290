//! `hostlet exec`: runs a command in a container like `kubectl exec`, and exits as it did.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::Args;
use futures::sink;

use super::client::{DaemonArgs, post};
use super::error::CommandError;
use super::exit::Exit;
use super::keyboard::{Keyboard, Leaving};
use super::terminal::RawTerminal;
use crate::server::{ExecQuery, ExecView};
use crate::streaming::{Ended, Output, StreamUrl, remote_command};

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
    let view: ExecView = post(&args.daemon.socket, "/v1/exec", &query, &args.command).await?;
    let url = StreamUrl::parse(&view.url)?;
    let streams = query.streams();
    let keyboard = Keyboard::new(streams)?;
    let leaving = keyboard.leaving();
    let failure = RefCell::new(None);
    let output =
        sink::unfold((), async |(), printed| write(&printed).map_err(|error| failure.replace(Some(error))));
    let terminal = if query.tty { Some(RawTerminal::set()?) } else { None };
    let ended = remote_command(&url, streams, keyboard.inputs(), output).await;
    drop(terminal);
    match (ended?, failure.into_inner()) {
        (Ended::Succeeded, _) => Ok(Exit::Ok),
        (Ended::Exited(code), _) => Ok(Exit::Command(code.into())),
        (Ended::Failed(why), _) => Err(CommandError::Exec(why)),
        // A reader such as `head` may close the output early.
        (Ended::Left, Some(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Ok),
        (Ended::Left, Some(error)) => Err(error.into()),
        (Ended::Left, None) => Ok(match leaving.get() {
            Leaving::Detached => Exit::Ok,
            Leaving::Signalled => Exit::Failed,
        }),
    }
}

fn write(printed: &Output) -> io::Result<()> {
    match printed {
        Output::Stdout(bytes) => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        }
        Output::Stderr(bytes) => io::stderr().write_all(bytes),
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

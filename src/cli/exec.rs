//! `hostlet exec`: runs a command in a container, prints what it prints, and exits as it did.

use std::io::{self, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;

use super::client::{DaemonArgs, post};
use super::error::CommandError;
use super::exit::Exit;
use crate::config::GoDuration;
use crate::server::{ExecQuery, ExecView};

/// The limit of a command's run unless given.
const TIMEOUT: Duration = Duration::from_secs(60);

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
    /// The command is killed after this time, e.g. 30s or 5m [default: 1m]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<GoDuration>,
    /// The daemon to ask
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// The command and its arguments, after --
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

impl ExecArgs {
    fn query(&self) -> ExecQuery {
        let timeout = self.timeout.and_then(GoDuration::to_std).unwrap_or(TIMEOUT);
        ExecQuery {
            pod: self.pod.clone(),
            namespace: self.namespace.clone(),
            container: self.container.clone(),
            // The CRI has whole seconds.
            timeout: timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0),
        }
    }
}

/// Runs `hostlet exec`.
pub async fn exec(args: ExecArgs) -> Result<Exit, CommandError> {
    let done: ExecView = post(&args.daemon.socket, "/v1/exec", &args.query(), &args.command).await?;
    io::stdout().write_all(&STANDARD.decode(&done.stdout)?)?;
    io::stdout().flush()?;
    io::stderr().write_all(&STANDARD.decode(&done.stderr)?)?;
    Ok(Exit::Command(done.exit_code))
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
        let line = "exec web -c app -n a --timeout 1500ms --socket /s -- sh -c --timeout";
        let args = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}")).args;
        assert_eq!(args.command, ["sh", "-c", "--timeout"]);
        let expected = ExecQuery {
            pod: "web".to_owned(),
            namespace: Some("a".to_owned()),
            container: Some("app".to_owned()),
            timeout: 2,
        };
        assert_eq!(args.query(), expected);
        assert!(Line::try_parse_from(["exec", "web"]).is_err());
        assert!(Line::try_parse_from(["exec", "web", "ls"]).is_err());
    }
}

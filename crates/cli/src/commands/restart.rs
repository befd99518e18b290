//! `hostlet restart`: restarts containers of a pod, within its grace period.

use std::io::{self, Write};

use clap::Args;
use hostlet_serve::server::{RestartQuery, RestartView};

use super::client::{DaemonArgs, post};
use super::error::CommandError;
use super::exit::Exit;

/// Arguments of `hostlet restart`.
#[derive(Clone, Debug, Args)]
pub struct RestartArgs {
    /// The pod, with or without the node's name appended, or NAMESPACE/NAME
    pub pod: String,
    /// Only this container [default: all of the pod]
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Namespace of the pod [default: any]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Also if the pod's restartPolicy is Never
    #[arg(long)]
    pub force: bool,
    /// The daemon to ask
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet restart`. Does not wait for the restart.
pub async fn restart(args: RestartArgs) -> Result<Exit, CommandError> {
    let query = RestartQuery {
        pod: args.pod,
        namespace: args.namespace,
        container: args.container,
        force: args.force,
    };
    let accepted: RestartView = post(&args.daemon.socket(), "/v1/restart", &query, &()).await?;
    for container in &accepted.containers {
        writeln!(io::stdout(), "{}: container {container} is being restarted", accepted.pod)?;
    }
    Ok(Exit::Ok)
}

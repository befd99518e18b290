//! `hostlet logs`: prints a container's log like `kubectl logs`.

use std::io::{self, Write};

use clap::Args;
use hostlet_base::GoDuration;
use hostlet_serve::server::LogsQuery;
use jiff::{SignedDuration, Timestamp};

use super::client::{DaemonArgs, Log};
use super::error::CommandError;
use super::exit::Exit;

/// Arguments of `hostlet logs`.
#[derive(Clone, Debug, Args)]
pub struct LogsArgs {
    /// The pod, with or without the node's name appended, or NAMESPACE/NAME
    pub pod: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Namespace of the pod [default: any]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Follow the log until the container exits
    #[arg(short, long)]
    pub follow: bool,
    /// Print the log of the previous instance of the container
    #[arg(short, long)]
    pub previous: bool,
    /// Print only this many last lines
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u64>,
    /// Print only lines younger than this, e.g. 30s, 5m or 1h30m
    #[arg(long, value_name = "DURATION")]
    pub since: Option<GoDuration>,
    /// Print the time before each line
    #[arg(long)]
    pub timestamps: bool,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl LogsArgs {
    fn query(&self, now: Timestamp) -> LogsQuery {
        let since = |since: GoDuration| {
            let span = SignedDuration::try_from(since.to_std().unwrap_or_default()).unwrap_or_default();
            now.saturating_sub(span).unwrap_or(Timestamp::MIN)
        };
        LogsQuery {
            pod: self.pod.clone(),
            namespace: self.namespace.clone(),
            container: self.container.clone(),
            previous: self.previous,
            tail: self.tail,
            since: self.since.map(since),
            timestamps: self.timestamps,
            follow: self.follow,
        }
    }
}

/// Runs `hostlet logs`.
pub async fn logs(args: LogsArgs) -> Result<Exit, CommandError> {
    let mut log = Log::start(&args.daemon.socket(), &args.query(Timestamp::now())).await?;
    let mut out = io::stdout();
    while let Some(piece) = log.next().await? {
        out.write_all(&piece)?;
        out.flush()?;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LogsArgs,
    }

    #[test]
    fn the_command_line_is_kubectls() {
        let line = "logs a/web -c app -n a -f -p --tail=20 --since 1h30m --timestamps --socket /s";
        let args = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}")).args;
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let query = LogsQuery {
            pod: "a/web".to_owned(),
            namespace: Some("a".to_owned()),
            container: Some("app".to_owned()),
            previous: true,
            tail: Some(20),
            since: Some("2026-01-01T10:30:00Z".parse().unwrap()),
            timestamps: true,
            follow: true,
        };
        assert_eq!(args.query(now), query);
        let sent = serde_urlencoded::to_string(&query).unwrap();
        assert_eq!(serde_urlencoded::from_str::<LogsQuery>(&sent), Ok(query));
        assert!(Line::try_parse_from(["logs", "web", "--since", "soon"]).is_err());
    }
}

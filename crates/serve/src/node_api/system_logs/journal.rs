//! The logs of services: from the journal, or from files of their names if the journal has none. What cannot be had is said in the
//! text, because the answer has already begun.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, StreamExt};
use hostlet_base::error_chain;
use hostlet_host::{InsideError, file_work, run_program};
use http::header::CONTENT_TYPE;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::files;
use super::query::{Options, Query};

/// Upstream's limit of an answer.
const LIMIT: Duration = Duration::from_secs(30);

/// How much is read at once.
const PIECE: usize = 64 << 10;

type Text = BoxStream<'static, io::Result<Bytes>>;

/// Answers with the logs of these services, whose names are safe: what the program `journalctl` prints, or files below `dir`.
pub(super) async fn answer(journalctl: &Path, dir: &Path, query: &Query, services: Vec<String>) -> Response {
    let deadline = Instant::now() + LIMIT;
    let units = units(journalctl).await;
    let (native, other): (Vec<String>, Vec<String>) =
        services.into_iter().partition(|service| units.contains(&format!("{service}.service")));
    let mut parts: Vec<Text> = Vec::new();
    if !native.is_empty() {
        parts.push(journal(journalctl, query.options.arguments(&native)));
    }
    if !other.is_empty() && query.options != Options::default() {
        let why = format!(
            "\noptions present and query resolved to log files for [{}]\ntry without specifying options\n",
            other.join(" ")
        );
        parts.push(said(why));
    } else {
        for service in other {
            parts.push(log_file(dir, service).await);
        }
    }
    let text = stream::iter(parts).flatten().take_until(tokio::time::sleep_until(deadline));
    ([(CONTENT_TYPE, "text/plain;charset=UTF-8")], Body::from_stream(text)).into_response()
}

/// The units with entries in the journal, as text; nothing if there is no journal.
async fn units(journalctl: &Path) -> String {
    let mut command = Command::new(journalctl);
    command.args(["--field", "_SYSTEMD_UNIT"]);
    match run_program(command, Vec::new(), LIMIT).await {
        Ok(units) => String::from_utf8_lossy(&units).into_owned(),
        Err(error) => {
            tracing::debug!(error = error_chain(&error), "the journal has no units");
            String::new()
        }
    }
}

fn said(text: String) -> Text {
    stream::iter([Ok(Bytes::from(text))]).boxed()
}

/// What journalctl prints, errors included. It is killed when the stream is dropped.
fn journal(journalctl: &Path, arguments: Vec<String>) -> Text {
    match start(journalctl, &arguments) {
        Ok(started) => stream::try_unfold(started, |(child, mut output)| async move {
            let mut piece = Vec::with_capacity(PIECE);
            match output.read_buf(&mut piece).await? {
                0 => Ok(None),
                _ => Ok(Some((Bytes::from(piece), (child, output)))),
            }
        })
        .boxed(),
        Err(error) => {
            tracing::warn!(%error, "journalctl cannot be started");
            said("\nerror: journal output not available\n".to_owned())
        }
    }
}

fn start(journalctl: &Path, arguments: &[String]) -> io::Result<(Child, Receiver)> {
    let (output, input) = io::pipe()?;
    let mut command = Command::new(journalctl);
    command.args(arguments).stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input).kill_on_drop(true);
    let child = command.spawn()?;
    Ok((child, Receiver::from_owned_fd(output.into())?))
}

/// The first file with a name that a service's log may have.
async fn log_file(dir: &Path, service: String) -> Text {
    let names = [service.clone(), format!("{service}.log"), format!("{service}/{service}.log")];
    for name in names {
        let dir = dir.to_owned();
        let opened = file_work(move || files::open(&dir, &name)).await;
        match opened.map_err(io::Error::other) {
            Ok(Ok(file)) => return file_text(file),
            Ok(Err(InsideError::Open { source, path })) if is_absent(&source, &path) => {}
            Ok(Err(error)) => {
                return said(format!("\nerror getting log for {service}: {}\n", error_chain(&error)));
            }
            Err(error) => return said(format!("\nerror getting log for {service}: {error}\n")),
        }
    }
    said(format!("\nlog not found for {service}\n"))
}

/// Whether there is no file: a directory is none.
fn is_absent(error: &io::Error, path: &Path) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) || path.is_dir()
}

fn file_text(file: File) -> Text {
    stream::try_unfold(file, |mut file| async move {
        let read = file_work(move || {
            let mut piece = Vec::new();
            file.by_ref().take(PIECE as u64).read_to_end(&mut piece).map(|_| (piece, file))
        });
        let (piece, file) = read.await.map_err(io::Error::other)??;
        Ok((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
    })
    .boxed()
}

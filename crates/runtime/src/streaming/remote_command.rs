//! A client of a command in a container, or of a container's own process (protocol v4.channel.k8s.io over SPDY).

use std::pin::{Pin, pin};

use bytes::Bytes;
use futures::{Sink, SinkExt, Stream as Inputs, StreamExt};
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::upgrade::{Answer, PATIENCE, spdy_headers, upgrade};
use super::{Ended, StreamUrl, StreamingError};
use crate::cri::StdStreams;
use crate::spdy::{Connection, Stream};

/// The protocol of every living runtime.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// Limit for the report of a command's end, in bytes.
const MOST_REPORT: usize = 64 << 10;

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes for the standard input.
    Stdin(Bytes),
    /// The end of the standard input.
    StdinEnd,
    /// The terminal's size, at first and after each change.
    Resize(TerminalSize),
}

/// What a process prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To its standard output.
    Stdout(Bytes),
    /// To its standard error.
    Stderr(Bytes),
}

/// Runs the session at a URL of the runtime until the process ends, `input` ends, or `output` fails; the two latter mean that the
/// client has left. All output is passed on before the end is returned.
///
/// # Errors
/// The runtime cannot be reached, does not agree, or the connection breaks.
pub async fn remote_command(
    url: &StreamUrl,
    streams: StdStreams,
    input: impl Inputs<Item = Input>,
    output: impl Sink<Output>,
) -> Result<Ended, StreamingError> {
    let io = match upgrade(url, Method::POST, spdy_headers(PROTOCOL)).await? {
        Answer::Switched { io, .. } => io,
        Answer::Rejected(response) => {
            let text = String::from_utf8_lossy(response.body()).trim().to_owned();
            let text = if text.is_empty() { response.status().to_string() } else { text };
            return Err(StreamingError::Rejected(text));
        }
    };
    let (connection, driver) = Connection::new(io);
    let (mut session, mut driver) = (pin!(session(connection, streams, input, output)), pin!(driver.run()));
    tokio::select! {
        // Cancel-safe, both: they are pinned outside.
        ended = &mut session => ended,
        driven = &mut driver => match (session.await, driven) {
            (Err(StreamingError::Lost), Err(error)) => Err(StreamingError::Broken(error)),
            // What had arrived before may be all there is.
            (ended, _) => ended,
        },
    }
}

/// The streams of a session, in the order of client-go.
struct Streams {
    error: Stream,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

impl Streams {
    async fn open(connection: &Connection, requested: StdStreams) -> Result<Self, StreamingError> {
        let open = async |kind: &str| {
            let headers = vec![("streamtype", kind.to_owned())];
            connection.open(headers).await.map_err(StreamingError::Open)
        };
        let open_if = async |is_requested, kind| match is_requested {
            true => open(kind).await.map(Some),
            false => Ok(None),
        };
        Ok(Self {
            error: open("error").await?,
            stdin: open_if(requested.stdin, "stdin").await?,
            stdout: open_if(requested.stdout, "stdout").await?,
            stderr: open_if(requested.stderr && !requested.tty, "stderr").await?,
            resize: open_if(requested.tty, "resize").await?,
        })
    }
}

async fn session(
    connection: Connection,
    requested: StdStreams,
    input: impl Inputs<Item = Input>,
    output: impl Sink<Output>,
) -> Result<Ended, StreamingError> {
    let opened = timeout(PATIENCE, Streams::open(&connection, requested)).await;
    let Streams { error, stdin, stdout, stderr, resize } =
        opened.unwrap_or(Err(StreamingError::Late(PATIENCE)))?;
    let (input, output) = (pin!(input), pin!(output));
    tokio::select! {
        // The end of the process comes before the end of the input, which may be its effect.
        biased;
        // Cancel-safe, both: the session ends with either.
        ended = receive(error, stdout, stderr, output) => ended,
        () = send(stdin, resize, input) => Ok(Ended::Left),
    }
}

/// Sends what the client sends, until it leaves. A process may end before it has read everything, so that errors do not matter.
async fn send(
    mut stdin: Option<Stream>,
    resize: Option<Stream>,
    mut input: Pin<&mut impl Inputs<Item = Input>>,
) {
    let mut has_finished = false;
    while let Some(next) = input.next().await {
        match next {
            Input::Stdin(bytes) => {
                if let Some(stdin) = stdin.as_ref().filter(|_| !has_finished && !bytes.is_empty()) {
                    let _ = stdin.send(bytes).await;
                }
            }
            Input::StdinEnd => {
                if let Some(stdin) = stdin.as_mut().filter(|_| !has_finished) {
                    let _ = stdin.finish().await;
                    has_finished = true;
                }
            }
            Input::Resize(size) => {
                if let (Some(resize), Ok(size)) = (&resize, serde_json::to_vec(&size)) {
                    let _ = resize.send(size.into()).await;
                }
            }
        }
    }
}

/// Passes on what the process prints, then reads how it ended.
async fn receive(
    mut error: Stream,
    mut stdout: Option<Stream>,
    mut stderr: Option<Stream>,
    mut output: Pin<&mut impl Sink<Output>>,
) -> Result<Ended, StreamingError> {
    loop {
        let printed = tokio::select! {
            // Cancel-safe, both: bytes are taken only when returned.
            Some(bytes) = next_of(&mut stdout) => Output::Stdout(bytes),
            Some(bytes) = next_of(&mut stderr) => Output::Stderr(bytes),
            else => break,
        };
        if output.send(printed).await.is_err() {
            return Ok(Ended::Left);
        }
    }
    let mut report = Vec::new();
    while let Some(bytes) = error.receive().await {
        report.extend_from_slice(&bytes);
        report.truncate(MOST_REPORT);
    }
    // Each end is reported, also a good one.
    if report.is_empty() { Err(StreamingError::Lost) } else { Ok(Ended::parse(&report)) }
}

async fn next_of(stream: &mut Option<Stream>) -> Option<Bytes> {
    match stream {
        Some(stream) => stream.receive().await,
        None => None,
    }
}

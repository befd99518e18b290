//! A connection and its streams. A stream whose receiver is slow holds up the connection, as in the servers: the protocol has no other
//! way to slow a sender down.

use std::collections::HashMap;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::SpdyError;
use super::frame::{self, Control, Head, HeaderBlocks};

/// Received chunks waiting in a stream, and commands waiting for the connection. They smooth out switches between tasks.
const WAITING: usize = 8;

/// Maximum length of a received chunk, in bytes, whatever the length of its frame.
const CHUNK: usize = 32 << 10;

/// Opens streams. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    commands: mpsc::Sender<Command>,
}

/// Serves a connection: whoever opens it runs this beside the use of its streams.
#[derive(Debug)]
pub struct Driver<T> {
    io: T,
    commands: mpsc::Receiver<Command>,
    replies: mpsc::WeakSender<Command>,
}

/// One stream. Dropped, it is reset.
#[derive(Debug)]
pub struct Stream {
    id: u32,
    incoming: mpsc::Receiver<Bytes>,
    commands: mpsc::Sender<Command>,
    has_finished: bool,
}

#[derive(Debug)]
enum Command {
    Open { headers: Vec<(&'static str, String)>, opened: oneshot::Sender<Result<Opened, SpdyError>> },
    Data { stream: u32, data: Bytes, is_last: bool },
    Reset { stream: u32 },
    Pong(u32),
}

/// The accepted stream's number, and what arrives on it.
type Opened = (u32, mpsc::Receiver<Bytes>);

/// The server's side of a stream.
#[derive(Debug)]
enum Receiving {
    /// It has not accepted the stream.
    Awaited(oneshot::Sender<Result<Opened, SpdyError>>),
    /// It may send.
    Open(mpsc::Sender<Bytes>),
}

type Streams = Mutex<HashMap<u32, Receiving>>;

impl Connection {
    /// A connection over `io`, whose peer is a server that has agreed to SPDY/3.1.
    pub fn new<T>(io: T) -> (Self, Driver<T>) {
        let (sender, commands) = mpsc::channel(WAITING);
        let replies = sender.downgrade();
        (Self { commands: sender }, Driver { io, commands, replies })
    }

    /// Opens a stream and waits until the server accepts it: what is sent before is lost. Names of headers are in lower case.
    ///
    /// # Errors
    /// The server refused the stream, or the connection has ended.
    pub async fn open(&self, headers: Vec<(&'static str, String)>) -> Result<Stream, SpdyError> {
        let (opened, is_open) = oneshot::channel();
        let command = Command::Open { headers, opened };
        self.commands.send(command).await.map_err(|_| SpdyError::Ended)?;
        let (id, incoming) = is_open.await.map_err(|_| SpdyError::Ended)??;
        Ok(Stream { id, incoming, commands: self.commands.clone(), has_finished: false })
    }
}

impl Stream {
    /// The next bytes; `None` after the last ones or the end of the connection. Cancel-safe.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.incoming.recv().await
    }

    /// Sends bytes. Returns once the connection has taken them, which says nothing about the server: it may have left.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&self, data: Bytes) -> Result<(), SpdyError> {
        let command = Command::Data { stream: self.id, data, is_last: false };
        self.commands.send(command).await.map_err(|_| SpdyError::Ended)
    }

    /// Says that no more bytes follow. Bytes of the server still arrive.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn finish(&mut self) -> Result<(), SpdyError> {
        self.has_finished = true;
        let command = Command::Data { stream: self.id, data: Bytes::new(), is_last: true };
        self.commands.send(command).await.map_err(|_| SpdyError::Ended)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // If both sides have finished, the server knows no such stream. If the queue is full, what still arrives is discarded.
        if !(self.has_finished && self.incoming.is_closed()) {
            let _ = self.commands.try_send(Command::Reset { stream: self.id });
        }
    }
}

impl<T: AsyncRead + AsyncWrite> Driver<T> {
    /// Serves the connection until all handles are dropped, the server ends it, or it fails. All streams then end.
    ///
    /// # Errors
    /// The connection failed, or the server broke the protocol.
    pub async fn run(mut self) -> Result<(), SpdyError> {
        let (reader, writer) = tokio::io::split(self.io);
        let streams = Streams::default();
        let mut reading = pin!(read(reader, &streams, &self.replies));
        let written = tokio::select! {
            // Cancel-safe: the connection ends with it.
            read = &mut reading => return read,
            // Cancel-safe: the connection is not written any more.
            written = write(writer, &streams, &mut self.commands) => written,
        };
        if written.is_err() {
            // A server that reads no more may have sent how a command ended.
            tokio::select! {
                // Cancel-safe, both: the connection ends with either.
                _ = reading => {}
                () = discard(&mut self.commands) => {}
            }
        }
        written
    }
}

/// Discards commands until all handles are dropped. Streams that wait to be opened are not.
async fn discard(commands: &mut mpsc::Receiver<Command>) {
    while commands.recv().await.is_some() {}
}

async fn read<T: AsyncRead>(
    mut reader: ReadHalf<T>,
    streams: &Streams,
    replies: &mpsc::WeakSender<Command>,
) -> Result<(), SpdyError> {
    let mut payload = Vec::new();
    loop {
        let mut head = [0; frame::HEAD];
        match reader.read_exact(&mut head).await {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(SpdyError::Read)?,
        };
        match Head::decode(head)? {
            Head::Data { stream, is_last, length } => {
                pass_on(&mut reader, streams, stream, length).await?;
                if is_last {
                    streams.lock().remove(&stream);
                }
            }
            Head::Control { kind, flags, length } => {
                payload.resize(length, 0);
                reader.read_exact(&mut payload).await.map_err(SpdyError::Read)?;
                match Control::decode(kind, flags, &payload)? {
                    Control::Reply { stream, is_last } => accept(streams, stream, is_last),
                    Control::Reset { stream, status } => {
                        if let Some(Receiving::Awaited(opened)) = streams.lock().remove(&stream) {
                            let _ = opened.send(Err(SpdyError::Refused(status)));
                        }
                    }
                    Control::Ping(number) => {
                        // Without handles the connection is about to end.
                        let Some(replies) = replies.upgrade() else { return Ok(()) };
                        // While a full queue waits for a server that does not read, neither side waits for the other.
                        let _ = replies.try_send(Command::Pong(number));
                    }
                    // The streams that it has accepted continue.
                    Control::GoAway | Control::Other => {}
                }
            }
        }
    }
}

/// The server has accepted a stream.
fn accept(streams: &Streams, stream: u32, is_last: bool) {
    let mut streams = streams.lock();
    match streams.remove(&stream) {
        Some(Receiving::Awaited(opened)) => {
            let (sender, incoming) = mpsc::channel(WAITING);
            if opened.send(Ok((stream, incoming))).is_ok() && !is_last {
                streams.insert(stream, Receiving::Open(sender));
            }
        }
        // A second reply.
        Some(open @ Receiving::Open(_)) => {
            streams.insert(stream, open);
        }
        None => {}
    }
}

/// Reads the payload of a data frame in chunks, and passes them to the stream's receiver if it has one.
async fn pass_on<T: AsyncRead>(
    reader: &mut ReadHalf<T>,
    streams: &Streams,
    stream: u32,
    length: usize,
) -> Result<(), SpdyError> {
    let receiver = match streams.lock().get(&stream) {
        Some(Receiving::Open(sender)) => Some(sender.clone()),
        Some(Receiving::Awaited(_)) | None => None,
    };
    let mut left = length;
    while left > 0 {
        let mut chunk = BytesMut::zeroed(left.min(CHUNK));
        let read = reader.read(&mut chunk).await.map_err(SpdyError::Read)?;
        if read == 0 {
            return Err(SpdyError::Read(std::io::ErrorKind::UnexpectedEof.into()));
        }
        left -= read;
        chunk.truncate(read);
        if let Some(receiver) = &receiver {
            // Nobody reads a stream whose receiver was dropped.
            let _ = receiver.send(chunk.freeze()).await;
        }
    }
    Ok(())
}

async fn write<T: AsyncWrite>(
    mut writer: WriteHalf<T>,
    streams: &Streams,
    commands: &mut mpsc::Receiver<Command>,
) -> Result<(), SpdyError> {
    let (mut blocks, mut next, mut out) = (HeaderBlocks::default(), 1_u32, Vec::new());
    while let Some(command) = commands.recv().await {
        out.clear();
        match command {
            Command::Open { headers, opened } => {
                let texts: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                blocks.encode_open(next, &texts, &mut out);
                streams.lock().insert(next, Receiving::Awaited(opened));
                // A client's streams are odd. A session does not reach the last one.
                next = next.wrapping_add(2) & 0x7fff_ffff;
            }
            Command::Data { stream, mut data, is_last } => {
                while data.len() > frame::MOST_DATA {
                    let part = data.split_to(frame::MOST_DATA);
                    out.clear();
                    frame::encode_data_head(stream, false, part.len(), &mut out);
                    writer.write_all(&out).await.map_err(SpdyError::Write)?;
                    writer.write_all(&part).await.map_err(SpdyError::Write)?;
                }
                out.clear();
                frame::encode_data_head(stream, is_last, data.len(), &mut out);
                out.extend(&data);
            }
            Command::Reset { stream } => {
                streams.lock().remove(&stream);
                frame::encode_reset(stream, &mut out);
            }
            Command::Pong(number) => frame::encode_ping(number, &mut out),
        }
        writer.write_all(&out).await.map_err(SpdyError::Write)?;
        writer.flush().await.map_err(SpdyError::Write)?;
    }
    Ok(())
}

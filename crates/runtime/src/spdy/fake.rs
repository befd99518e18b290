//! The other side, as far as tests need it. It reads the header blocks of this crate's client only, which are stored.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a client does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It opens a stream.
    Open {
        /// The stream.
        stream: u32,
        /// Its headers.
        headers: Vec<(String, String)>,
    },
    /// It sends bytes.
    Data {
        /// The stream.
        stream: u32,
        /// The bytes.
        data: Bytes,
        /// Whether none follow.
        is_last: bool,
    },
    /// It resets a stream.
    Reset {
        /// The stream.
        stream: u32,
    },
}

/// A server on a connection.
#[derive(Debug)]
pub struct FakeServer<T> {
    io: T,
    has_opened: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> FakeServer<T> {
    /// A server that has agreed to SPDY/3.1.
    pub fn new(io: T) -> Self {
        Self { io, has_opened: false }
    }

    /// Ends the protocol, and returns what it ran on.
    pub fn into_inner(self) -> T {
        self.io
    }

    /// The next event; `None` at the end of the connection. Not cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let mut head = [0; 8];
            self.io.read_exact(&mut head).await.ok()?;
            let [a, b, c, d, flags, length @ ..] = head;
            let length = length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
            let mut payload = vec![0; length];
            self.io.read_exact(&mut payload).await.ok()?;
            if a & 0x80 == 0 {
                let stream = u32::from_be_bytes([a, b, c, d]);
                return Some(Event::Data { stream, data: payload.into(), is_last: flags & 1 != 0 });
            }
            let stream = u32::from_be_bytes(*payload.first_chunk()?);
            match d {
                1 => {
                    let block = &payload[if self.has_opened { 10 } else { 16 }..];
                    self.has_opened = true;
                    return Some(Event::Open { stream, headers: headers(&stored(block)) });
                }
                3 => return Some(Event::Reset { stream }),
                _ => {}
            }
        }
    }

    /// Accepts a stream.
    pub async fn accept(&mut self, stream: u32) {
        let reply = [&b"\x80\x03\x00\x02\x00\x00\x00\x04"[..], &stream.to_be_bytes()].concat();
        // A client that has left is seen by the next read.
        let _ = self.io.write_all(&reply).await;
    }

    /// Sends bytes on a stream.
    pub async fn send(&mut self, stream: u32, data: &[u8], is_last: bool) {
        let mut frame = stream.to_be_bytes().to_vec();
        let [_, length @ ..] = u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes();
        frame.push(u8::from(is_last));
        frame.extend(length);
        frame.extend(data);
        let _ = self.io.write_all(&frame).await;
    }
}

/// The bytes of stored blocks.
fn stored(mut blocks: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let [_, a, b, _, _, rest @ ..] = blocks {
        let length = usize::from(u16::from_le_bytes([*a, *b])).min(rest.len());
        bytes.extend(&rest[..length]);
        blocks = &rest[length..];
    }
    bytes
}

fn headers(block: &[u8]) -> Vec<(String, String)> {
    let mut rest = block.get(4..).unwrap_or_default();
    let mut texts = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(0).min(after.len());
        texts.push(String::from_utf8_lossy(&after[..length]).into_owned());
        rest = &after[length..];
    }
    texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

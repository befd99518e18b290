//! The frames that a client sends and receives (SPDY protocol, draft 3, section 2). Pure.

use super::SpdyError;

/// Length of the head of each frame, in bytes.
pub const HEAD: usize = 8;

/// Limit for the payload of a control frame, in bytes. A runtime's have a few dozen.
const MOST_CONTROL: usize = 64 << 10;

/// Maximum length of a data frame's payload in bytes: 24 bits.
pub(super) const MOST_DATA: usize = (1 << 24) - 1;

const VERSION: u16 = 3;
const FIN: u8 = 1;
/// The status of a reset by the side that opened the stream.
const CANCEL: u32 = 5;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;

/// The head of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Bytes of a stream follow.
    Data {
        /// The number of the stream, never 0.
        stream: u32,
        /// Whether the server sends nothing more on it.
        is_last: bool,
        /// The length of the payload in bytes.
        length: usize,
    },
    /// The payload of a control frame follows.
    Control {
        /// The type of the frame.
        kind: u16,
        /// Its flags; their meaning depends on the type.
        flags: u8,
        /// The length of the payload in bytes.
        length: usize,
    },
}

/// A received control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The server accepted a stream.
    Reply {
        /// The number of the stream.
        stream: u32,
        /// Whether the server sends nothing on it.
        is_last: bool,
    },
    /// The server ended a stream in both directions.
    Reset {
        /// The number of the stream.
        stream: u32,
        /// Why, as a number of the protocol.
        status: u32,
    },
    /// A ping, which the server expects to be answered with the same number.
    Ping(u32),
    /// The server accepts no more streams.
    GoAway,
    /// A frame without effect on a client: settings, windows, further headers.
    Other,
}

impl Head {
    /// The length of the frame's payload in bytes.
    pub fn length(self) -> usize {
        match self {
            Self::Data { length, .. } | Self::Control { length, .. } => length,
        }
    }

    /// Reads the head of a frame.
    ///
    /// # Errors
    /// No server of SPDY/3 sends such a frame, or it is too long.
    pub fn decode(head: [u8; HEAD]) -> Result<Self, SpdyError> {
        let [a, b, c, d, flags, length @ ..] = head;
        let length = length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        if a & 0x80 == 0 {
            let stream = u32::from_be_bytes([a, b, c, d]);
            if stream == 0 {
                return Err(SpdyError::InvalidFrame("data of stream 0"));
            }
            return Ok(Self::Data { stream, is_last: flags & FIN != 0, length });
        }
        if u16::from_be_bytes([a & 0x7f, b]) != VERSION {
            return Err(SpdyError::InvalidFrame("another version than SPDY/3"));
        }
        if length > MOST_CONTROL {
            return Err(SpdyError::InvalidFrame("a control frame exceeds 64 KiB"));
        }
        Ok(Self::Control { kind: u16::from_be_bytes([c, d]), flags, length })
    }
}

impl Control {
    /// Reads the payload of a control frame.
    ///
    /// # Errors
    /// The payload is too short for its type.
    pub fn decode(kind: u16, flags: u8, payload: &[u8]) -> Result<Self, SpdyError> {
        let word = |index: usize| {
            let bytes = payload.get(index * 4..).and_then(|rest| rest.first_chunk::<4>());
            bytes
                .map(|bytes| u32::from_be_bytes(*bytes))
                .ok_or(SpdyError::InvalidFrame("a control frame is too short"))
        };
        let stream = || Ok(word(0)? & 0x7fff_ffff);
        Ok(match kind {
            SYN_REPLY => Self::Reply { stream: stream()?, is_last: flags & FIN != 0 },
            RST_STREAM => Self::Reset { stream: stream()?, status: word(1)? },
            PING => Self::Ping(word(0)?),
            GO_AWAY => Self::GoAway,
            SYN_STREAM => return Err(SpdyError::InvalidFrame("it opens a stream")),
            _ => Self::Other,
        })
    }
}

fn control(kind: u16, flags: u8, payload: &[u8], into: &mut Vec<u8>) {
    into.extend((VERSION | 0x8000).to_be_bytes());
    into.extend(kind.to_be_bytes());
    into.push(flags);
    into.extend(&length(payload.len()));
    into.extend(payload);
}

/// 24 bits. Only payloads of this client's frames have one, all far shorter.
fn length(of: usize) -> [u8; 3] {
    let [_, bytes @ ..] = u32::try_from(of).unwrap_or(u32::MAX).to_be_bytes();
    bytes
}

/// Appends the head of a data frame with a payload of `bytes`, at most `MOST_DATA`.
pub fn encode_data_head(stream: u32, is_last: bool, bytes: usize, into: &mut Vec<u8>) {
    into.extend(stream.to_be_bytes());
    into.push(if is_last { FIN } else { 0 });
    into.extend(&length(bytes));
}

/// Appends a frame that ends a stream in both directions.
pub(super) fn encode_reset(stream: u32, into: &mut Vec<u8>) {
    control(RST_STREAM, 0, &[stream.to_be_bytes(), CANCEL.to_be_bytes()].concat(), into);
}

/// Appends the answer to a ping.
pub(super) fn encode_ping(number: u32, into: &mut Vec<u8>) {
    control(PING, 0, &number.to_be_bytes(), into);
}

/// Writes header blocks: one zlib stream for a connection (section 2.6.10). Its bytes are stored, not compressed, which any
/// decompressor reads: a session has at most five blocks of some twenty bytes.
#[derive(Debug, Default)]
pub(super) struct HeaderBlocks {
    has_begun: bool,
}

/// The head of a zlib stream (RFC 1950) that names SPDY/3's dictionary by its Adler-32 checksum, and does not refer to it.
const ZLIB_HEAD: [u8; 6] = [0x78, 0x20, 0xe3, 0xc6, 0xa7, 0xc2];

impl HeaderBlocks {
    /// Appends a frame that opens a stream with these headers. Their names are in lower case.
    pub(super) fn encode_open(&mut self, stream: u32, headers: &[(&str, &str)], into: &mut Vec<u8>) {
        let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX).to_be_bytes();
        let mut block = count(headers.len()).to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(count(text.len()));
            block.extend(text.as_bytes());
        }
        // Stream, no associated stream, no priority, no slot.
        let mut payload = [stream.to_be_bytes(), [0; 4]].concat();
        payload.extend([0; 2]);
        if !std::mem::replace(&mut self.has_begun, true) {
            payload.extend(ZLIB_HEAD);
        }
        for part in block.chunks(usize::from(u16::MAX)) {
            // A stored block (RFC 1951, section 3.2.4).
            let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
            payload.push(0);
            payload.extend(length.to_le_bytes());
            payload.extend((!length).to_le_bytes());
            payload.extend(part);
        }
        // An empty one, as a flush of zlib ends with: Go's decompressor passes on the bytes of a block only when the next one begins,
        // and fails for good if none does.
        payload.extend([0, 0, 0, 0xff, 0xff]);
        control(SYN_STREAM, 0, &payload, into);
    }
}

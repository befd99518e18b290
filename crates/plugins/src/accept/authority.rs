//! Rewrites the `:authority` of HTTP/2 requests. gRPC for Go derives it from what a program dials: from the path of a socket it makes
//! `/run/a.sock` or `%2Frun%2Fa.sock`, neither of which is an authority, so that a strict server rejects the request. gRPC for Go accepts
//! both, and so did the kubelet always. Every octet of the stream keeps its place and every header its length, so the state that both ends
//! share about headers is not touched. Pure.

use std::ops::Range;

/// The first octets of a connection, before its frames.
const PREFACE: usize = 24;

/// Length of the header of a frame.
const FRAME_HEADER: usize = 9;

/// The longest payload of a frame that a server accepts by default. Of a longer one it is not known where it ends.
const MAX_PAYLOAD: usize = 16 << 10;

/// The type of a frame that begins the headers of a request, and its flags.
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

/// The place of `:authority` in HPACK's static table.
const AUTHORITY: usize = 1;

/// What takes the place of an octet that no authority has.
const SUBSTITUTE: u8 = b'-';

/// Follows the frames that a client sends.
pub(super) struct AuthorityRewriter {
    /// How many octets pass before the next frame.
    passing: usize,
}

impl Default for AuthorityRewriter {
    fn default() -> Self {
        Self { passing: PREFACE }
    }
}

/// The value of a header.
struct Value {
    /// Where it is.
    place: Range<usize>,
    /// Whether it is in HPACK's Huffman code.
    is_huffman: bool,
}

impl AuthorityRewriter {
    /// Rewrites what was received and not passed on so far. Returns how many of its octets may be passed on; the others are the beginning of
    /// a frame.
    pub(super) fn rewrite(&mut self, received: &mut [u8]) -> usize {
        let mut done = 0;
        loop {
            let pass = self.passing.min(received.len() - done);
            done += pass;
            self.passing -= pass;
            let rest = &mut received[done..];
            if self.passing > 0 || rest.len() < FRAME_HEADER {
                return done;
            }
            let (kind, flags) = (rest[3], rest[4]);
            let length = usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
            self.passing = FRAME_HEADER + length;
            if kind == HEADERS && length <= MAX_PAYLOAD {
                let Some(payload) = rest.get_mut(FRAME_HEADER..FRAME_HEADER + length) else {
                    self.passing = 0;
                    return done;
                };
                rewrite_payload(payload, flags);
            }
        }
    }
}

/// Rewrites the payload of a frame of headers, unless it is malformed: the server says so then.
fn rewrite_payload(payload: &mut [u8], flags: u8) -> Option<()> {
    let (mut start, mut end) = (0, payload.len());
    if flags & PADDED != 0 {
        start += 1;
        end = end.checked_sub(usize::from(*payload.first()?))?;
    }
    if flags & PRIORITY != 0 {
        start += 5;
    }
    let block = payload.get_mut(start..end)?;
    let Value { place, is_huffman } = authority(block)?;
    let value = block.get_mut(place)?;
    match is_huffman {
        true => rewrite_huffman(value),
        false => value
            .iter_mut()
            .filter(|octet| matches!(octet, b'%' | b'/'))
            .for_each(|octet| *octet = SUBSTITUTE),
    }
    Some(())
}

/// The authority in a block of headers, if it is spelled out (RFC 7541, section 6).
fn authority(block: &[u8]) -> Option<Value> {
    let mut at = 0;
    while let Some(&first) = block.get(at) {
        let (prefix, is_spelled_out) = match first {
            0x80.. => (7, false),
            0x40..0x80 => (6, true),
            0x20..0x40 => (5, false),
            0x00..0x20 => (4, true),
        };
        let name = integer(block, &mut at, prefix)?;
        if is_spelled_out {
            if name == 0 {
                string(block, &mut at)?;
            }
            let value = string(block, &mut at)?;
            if name == AUTHORITY {
                return Some(value);
            }
        }
    }
    None
}

/// The integer at a place, of which the first octet has this many bits (section 5.1). Moves behind it.
fn integer(block: &[u8], at: &mut usize, prefix: u32) -> Option<usize> {
    let mut next = || {
        let octet = *block.get(*at)?;
        *at += 1;
        Some(octet)
    };
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(next()?) & most;
    if value < most {
        return Some(value);
    }
    // Larger ones are in no block.
    for shift in [0, 7, 14] {
        let octet = next()?;
        value += usize::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The string at a place (section 5.2). Moves behind it.
fn string(block: &[u8], at: &mut usize) -> Option<Value> {
    let is_huffman = block.get(*at)? & 0x80 != 0;
    let length = integer(block, at, 7)?;
    let place = *at..*at + length;
    *at = place.end;
    Some(Value { place, is_huffman })
}

/// The same for a value in Huffman code (appendix B). The code of the substitute is as long as those of `%` and `/`. Stops at a code of
/// more than eight bits, which no path of a socket usually has.
fn rewrite_huffman(value: &mut [u8]) {
    const CODES: [u8; 2] = [0b01_0101, 0b01_1000];
    const SUBSTITUTE_CODE: u8 = 0b01_0110;
    const LENGTH: usize = 6;
    let bits = value.len() * 8;
    let mut at = 0;
    while at < bits {
        // The next eight bits, with the ones of the padding behind the end.
        let (octet, offset) = (at / 8, at % 8);
        let behind = value.get(octet + 1).copied().unwrap_or(u8::MAX);
        let pair = u16::from_be_bytes([value[octet], behind]);
        let [window, _] = (pair << offset).to_be_bytes();
        let length = match window {
            0x00..0x50 => 5,
            0x50..0xb8 => LENGTH,
            0xb8..0xf8 => 7,
            0xf8..0xfe => 8,
            0xfe.. => return,
        };
        if length == LENGTH && CODES.contains(&(window >> 2)) && at + LENGTH <= bits {
            let shift = 16 - LENGTH - offset;
            let rewritten = pair & !(0b11_1111 << shift) | u16::from(SUBSTITUTE_CODE) << shift;
            let [first, second] = rewritten.to_be_bytes();
            value[octet] = first;
            if let Some(behind) = value.get_mut(octet + 1) {
                *behind = second;
            }
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn rewritten(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut octets = [vec![b'P'; PREFACE], frames.concat()].concat();
        assert_eq!(AuthorityRewriter::default().rewrite(&mut octets), octets.len());
        octets.split_off(PREFACE)
    }

    /// A block with this value, as it is.
    fn plain(authority: &str) -> Vec<u8> {
        let length = u8::try_from(authority.len()).unwrap();
        // `:method: POST`, the size of the dynamic table, `:path: /a`, `:authority`, a new header.
        [
            &[0x83, 0x3f, 0x80, 0x01, 0x44, 2, b'/', b'a', 0x41, length],
            authority.as_bytes(),
            &[0x40, 1, b'x', 1, b'/'],
        ]
        .concat()
    }

    /// A block with this value in Huffman code.
    fn huffman(value: &[u8]) -> Vec<u8> {
        [&[0x83, 0x41, 0x80 | u8::try_from(value.len()).unwrap()], value].concat()
    }

    #[test]
    fn the_path_of_a_socket_becomes_an_authority_and_nothing_else_changes() {
        let (path, escaped) = (plain("/run/a.sock"), plain("%2Frun%2Fa.sock"));
        let padded = [&[3, 0, 0, 0, 0, 0], &path[..], &[b'/'; 3]].concat();
        let padded_rewritten = [&[3, 0, 0, 0, 0, 0], &plain("-run-a.sock")[..], &[b'/'; 3]].concat();
        let frames = [
            (frame(HEADERS, 4, &path), frame(HEADERS, 4, &plain("-run-a.sock"))),
            (frame(0, 1, &path), frame(0, 1, &path)),
            (frame(HEADERS, 5, &escaped), frame(HEADERS, 5, &plain("-2Frun-2Fa.sock"))),
            (
                frame(HEADERS, PADDED | PRIORITY, &padded),
                frame(HEADERS, PADDED | PRIORITY, &padded_rewritten),
            ),
            (frame(HEADERS, 4, &plain("localhost:80")), frame(HEADERS, 4, &plain("localhost:80"))),
        ];
        let (sent, expected): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
        assert_eq!(rewritten(&sent), expected.concat());
    }

    #[test]
    fn an_authority_in_huffman_code_is_rewritten_as_well() {
        let cases: [(&[u8], &[u8]); 4] = [
            // `/a` becomes `-a`, `%2F` becomes `-2F`.
            (&[0b0110_0000, 0b0111_1111], &[0b0101_1000, 0b0111_1111]),
            (&[0b0101_0100, 0b0101_1000, 0xff], &[0b0101_1000, 0b0101_1000, 0xff]),
            // `a/`: the second one begins in the first octet.
            (&[0b0001_1011, 0b0001_1111], &[0b0001_1010, 0b1101_1111]),
            // `www.example.com`, from the RFC.
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
            ),
        ];
        for (sent, expected) in cases {
            assert_eq!(
                rewritten(&[frame(HEADERS, 4, &huffman(sent))]),
                frame(HEADERS, 4, &huffman(expected))
            );
        }
    }

    proptest! {
        /// However the octets arrive, the same ones are passed on, as many as there were.
        #[test]
        fn a_stream_in_pieces_is_the_same_stream(
            blocks in prop::collection::vec((0..3_u8, any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)), 0..5),
            piece in 1..40_usize,
        ) {
            let frames: Vec<_> = blocks.iter().map(|(kind, flags, payload)| frame(*kind, *flags, payload)).collect();
            let sent = [vec![b'P'; PREFACE], frames.concat()].concat();
            let (mut rewriter, mut pending, mut passed) = (AuthorityRewriter::default(), Vec::new(), Vec::new());
            for octets in sent.chunks(piece) {
                pending.extend_from_slice(octets);
                let ready = rewriter.rewrite(&mut pending);
                passed.extend(pending.drain(..ready));
            }
            prop_assert!(pending.is_empty());
            prop_assert_eq!(&passed[PREFACE..], rewritten(&frames));
        }
    }
}

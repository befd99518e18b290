//! What the runtime reports about the connections of a port-forward, without what would end all of them. Pure.
//!
//! Each connection has an error stream for its report. kubectl ends the whole port-forward after any report (`handleConnection` of
//! client-go), also after one about a single connection that the pod reset. The end of that connection's data says the same to its client.

use std::collections::BTreeSet;

use bytes::BytesMut;

use hostlet_runtime::spdy::{Control, HEAD, Head, encode_data_head};

/// Longest frame that may be a report, in bytes.
const MOST_REPORT: usize = 4 << 10;

/// Streams on which a report may still come; the oldest are forgotten first. A connection whose client has left may get none.
const MOST_STREAMS: usize = 4_096;

/// How a report begins (`httpStreamHandler.portForward` of every runtime that uses Kubernetes' streaming server).
const BEGINNING: &[u8] = b"error forwarding port ";

/// How one about a broken connection ends: errno's texts in Go.
const BROKEN: [&[u8]; 2] = [b"connection reset by peer", b"broken pipe"];

/// The frames from the runtime, as they come.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Accepted streams without data so far.
    new: BTreeSet<u32>,
    /// Bytes whose meaning depends on the next ones.
    waiting: BytesMut,
    /// The rest of a frame that passes as it is.
    passing: usize,
}

impl Reports {
    /// Takes bytes of the runtime. Returns those for the client.
    pub(super) fn filter(&mut self, bytes: &[u8]) -> BytesMut {
        self.waiting.extend_from_slice(bytes);
        let mut passed = BytesMut::new();
        loop {
            let passing = self.passing.min(self.waiting.len());
            passed.unsplit(self.waiting.split_to(passing));
            self.passing -= passing;
            if !self.next_frame(&mut passed) {
                return passed;
            }
        }
    }

    /// Decides about the frame that begins now; `false` if that needs more bytes.
    fn next_frame(&mut self, passed: &mut BytesMut) -> bool {
        let Some(head) = self.waiting.first_chunk::<HEAD>() else { return false };
        let Ok(head) = Head::decode(*head) else {
            // Where the next frame begins is unknown.
            self.passing = usize::MAX;
            return true;
        };
        let end = HEAD.saturating_add(head.length());
        match head {
            Head::Control { kind, flags, .. } => {
                let Some(payload) = self.waiting.get(HEAD..end) else { return false };
                match Control::decode(kind, flags, payload) {
                    Ok(Control::Reply { stream, .. }) => self.add(stream),
                    Ok(Control::Reset { stream, .. }) => drop(self.new.remove(&stream)),
                    Ok(Control::Ping(_) | Control::GoAway | Control::Other) | Err(_) => {}
                }
            }
            Head::Data { is_last: false, length: 0, .. } => {}
            Head::Data { stream, is_last, length } => {
                if length <= MOST_REPORT && self.new.contains(&stream) {
                    let Some(report) = self.waiting.get(HEAD..end) else { return false };
                    if is_about_a_broken_connection(report) {
                        tracing::debug!(report = %String::from_utf8_lossy(report), "a forwarded connection broke");
                        self.new.remove(&stream);
                        self.waiting = self.waiting.split_off(end);
                        if is_last {
                            let mut end = Vec::with_capacity(HEAD);
                            encode_data_head(stream, true, 0, &mut end);
                            passed.extend_from_slice(&end);
                        }
                        return true;
                    }
                }
                self.new.remove(&stream);
            }
        }
        self.passing = end;
        true
    }

    /// A stream was accepted.
    fn add(&mut self, stream: u32) {
        if self.new.insert(stream) && self.new.len() > MOST_STREAMS {
            self.new.pop_first();
        }
    }
}

fn is_about_a_broken_connection(report: &[u8]) -> bool {
    report.starts_with(BEGINNING) && BROKEN.iter().any(|end| report.ends_with(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIN: u8 = 1;
    const SYN_REPLY: u8 = 2;
    const RST_STREAM: u8 = 3;

    fn reply(stream: u8) -> Vec<u8> {
        vec![0x80, 3, 0, SYN_REPLY, 0, 0, 0, 4, 0, 0, 0, stream]
    }

    fn data(stream: u8, flags: u8, text: &str) -> Vec<u8> {
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        [&[0, 0, 0, stream, flags, 0, length[0], length[1]], text.as_bytes()].concat()
    }

    const RESET: &str = "error forwarding port 80 to pod 5a, uid : failed to execute portforward in network namespace \"/n\": \
        read tcp4 127.0.0.1:1->127.0.0.1:80: read: connection reset by peer";
    const REFUSED: &str =
        "error forwarding port 81 to pod 5a, uid : dial tcp4 127.0.0.1:81: connect: connection refused";

    /// The frames of two connections in the pod, and what the client gets of them.
    fn frames() -> (Vec<u8>, Vec<u8>) {
        let kept = |frame: Vec<u8>| (frame.clone(), frame);
        let frames = [
            kept(reply(1)),
            kept(reply(3)),
            kept(reply(5)),
            kept(reply(7)),
            kept(data(3, 0, "some bytes")),
            // A log that is forwarded is no report.
            kept(data(3, 0, RESET)),
            // Settings, and what has another length than its kind.
            kept(vec![0x80, 3, 0, 4, 0, 0, 0, 2, 0, 0]),
            kept(vec![0x80, 3, 0, RST_STREAM, 0, 0, 0, 1, 0]),
            (data(1, 0, RESET), Vec::new()),
            kept(data(1, FIN, "")),
            kept(data(3, FIN, "")),
            kept(data(5, 0, REFUSED)),
            kept(vec![0x80, 3, 0, RST_STREAM, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 5]),
            kept(data(7, 0, RESET)),
            kept(reply(9)),
            (data(9, FIN, RESET), data(9, FIN, "")),
            kept(data(9, 0, &"x".repeat(MOST_REPORT + 1))),
        ];
        let (sent, got): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
        (sent.concat(), got.concat())
    }

    proptest! {
        #[test]
        fn only_reports_of_broken_connections_are_left_out(sizes in prop::collection::vec(1_usize..200, 1..20)) {
            let (mut sent, expected) = frames();
            let (mut reports, mut got, mut sizes) = (Reports::default(), Vec::new(), sizes.iter().cycle());
            while !sent.is_empty() {
                let size = sizes.next().copied().unwrap_or(1).min(sent.len());
                got.extend(reports.filter(&sent.drain(..size).collect::<Vec<_>>()));
            }
            prop_assert!(got == expected);
            prop_assert!(reports.new.is_empty() && reports.waiting.is_empty());
        }

        #[test]
        fn no_bytes_panic(pieces: Vec<Vec<u8>>) {
            let mut reports = Reports::default();
            for piece in pieces {
                reports.filter(&piece);
            }
        }
    }

    #[test]
    fn after_a_frame_of_another_protocol_all_passes() {
        let mut reports = Reports::default();
        let sent = [reply(1), vec![0x80, 2, 0, SYN_REPLY, 0, 0, 0, 0], data(1, 0, RESET)].concat();
        assert_eq!([reports.filter(&sent), reports.filter(&sent)].concat(), [&sent[..], &sent[..]].concat());
    }

    #[test]
    fn streams_without_a_report_are_forgotten() {
        let mut reports = Reports::default();
        for stream in 0..10_000_u32 {
            let frame = [&[0x80, 3, 0, SYN_REPLY, 0, 0, 0, 4][..], &stream.to_be_bytes()].concat();
            assert_eq!(reports.filter(&frame), frame);
        }
        assert_eq!((reports.new.len(), reports.new.last()), (MOST_STREAMS, Some(&9_999)));
    }
}

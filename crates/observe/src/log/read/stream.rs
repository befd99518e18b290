//! Streams a log, once or followed. Files are read on the blocking pool.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::try_unfold;
use tokio::time::sleep;

use super::options::LogOptions;
use super::reader::{LogReader, Piece};
use super::watches::{LogWatch, LogWatches};
use crate::log::LogError;

/// Poll interval without change notifications.
const FALLBACK: Duration = Duration::from_secs(1);

/// When to stop reading.
pub enum Until {
    /// At the log's current end.
    Now,
    /// Follow until this completes: the container has exited. Its remaining output is read first. Changes are reported by the watches.
    Ended(BoxFuture<'static, ()>, LogWatches),
}

/// The state of reading.
enum ReadingPhase {
    /// Reading up to the initial end.
    Once,
    Following(Follow),
    /// The container has exited; reading the rest of all files.
    Draining,
    /// Everything was read.
    Done,
}

struct Follow {
    ended: BoxFuture<'static, ()>,
    /// It misses everything if the system has no watches left.
    watch: LogWatch,
}

/// A log opened for streaming.
pub struct LogStreaming {
    reader: LogReader,
    phase: ReadingPhase,
    /// How many bytes may still be output.
    left: u64,
}

impl LogStreaming {
    /// Opens the log at `path` and finds the first line to output.
    pub async fn open(path: PathBuf, options: LogOptions, until: Until) -> Result<Self, LogError> {
        let opened = path.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let (phase, follows) = match until {
                // Watched before it is read, so that no change is missed in between.
                Until::Ended(ended, watches) => {
                    (ReadingPhase::Following(Follow { ended, watch: watches.follow(&opened) }), true)
                }
                Until::Now => (ReadingPhase::Once, false),
            };
            let reader = LogReader::open(&opened, &options, follows)?;
            Ok(Self { reader, phase, left: options.limit.unwrap_or(u64::MAX) })
        });
        opening.await.map_err(|join_error| LogError::Open { path, source: join_error.into() })?
    }

    /// The container's output, in chunks of any size. Ends with an error if the log cannot be read.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, LogError>> + Send {
        try_unfold(self, Self::next)
    }

    async fn next(mut self) -> Result<Option<(Bytes, Self)>, LogError> {
        while self.left > 0 && !matches!(self.phase, ReadingPhase::Done) {
            let mut text;
            (text, self) = self.step().await?;
            if !text.is_empty() {
                text.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= text.len() as u64;
                return Ok(Some((text.into(), self)));
            }
        }
        Ok(None)
    }

    /// Reads a chunk, or waits for more.
    async fn step(self) -> Result<(Vec<u8>, Self), LogError> {
        let Self { reader, phase, left } = self;
        let (mut reader, piece) = read(reader).await?;
        let (text, phase) = match (piece, phase) {
            (Piece::Text(text), phase) => (text, phase),
            (Piece::HandOver(wait), phase) => {
                sleep(wait).await;
                (Vec::new(), phase)
            }
            (Piece::End, ReadingPhase::Following(follow)) => follow.wait(&mut reader).await,
            (Piece::End, ReadingPhase::Once | ReadingPhase::Draining | ReadingPhase::Done) => {
                (reader.finish(), ReadingPhase::Done)
            }
        };
        Ok((text, Self { reader, phase, left }))
    }
}

impl Follow {
    /// Waits for more text or for the container's exit.
    async fn wait(mut self, reader: &mut LogReader) -> (Vec<u8>, ReadingPhase) {
        tokio::select! {
            // Cancel-safe: not polled again once complete.
            () = &mut self.ended => (Vec::new(), ReadingPhase::Draining),
            // Cancel-safe: a change counts as seen only when `changed` returns.
            () = self.watch.changed() => (Vec::new(), ReadingPhase::Following(self)),
            // Cancel-safe: a sleep.
            () = sleep(FALLBACK) => (reader.settle(), ReadingPhase::Following(self)),
        }
    }
}

/// Reads on the blocking pool. The reader is lost if this is dropped, which ends its stream anyway.
async fn read(mut reader: LogReader) -> Result<(LogReader, Piece), LogError> {
    let path = reader.path().to_owned();
    let done = tokio::task::spawn_blocking(move || reader.read().map(|piece| (reader, piece)));
    done.await.map_err(|join_error| LogError::Read { path, source: join_error.into() })?
}

//! Streams a log, once or followed. Files are read on the blocking pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::try_unfold;
use tokio::time::sleep;

use super::file::{LogOptions, LogReader, Piece};
use crate::log::LogError;
use crate::sys::{Changes, Watch};

/// Poll interval without change notifications.
const FALLBACK: Duration = Duration::from_secs(1);
/// How long a runtime may still write to the old log after opening a new one.
const HAND_OVER: Duration = Duration::from_millis(100);

/// When to stop reading.
pub enum Until {
    /// At the log's current end.
    Now,
    /// Follow until this completes: the container has exited. Its remaining output is read first.
    Ended(BoxFuture<'static, ()>),
}

/// The state of reading.
enum ReadingPhase {
    /// Reading up to the initial end.
    Once { left: u64 },
    /// Following.
    Following(Follow),
    /// The file was rotated; reading the runtime's last writes to it.
    Leaving(Follow),
    /// The container has exited; reading the rest of all files.
    Draining,
    /// Everything was read.
    Done,
}

struct Follow {
    ended: BoxFuture<'static, ()>,
    changed: Arc<Changes>,
    /// Triggers `changed`. It misses renamed files, and everything if the system has no watches left.
    _watch: Watch,
}

/// A log opened for streaming.
pub struct LogStreaming {
    reader: LogReader,
    phase: ReadingPhase,
}

impl LogStreaming {
    /// Opens the log at `path` and finds the first line to output.
    pub async fn open(path: PathBuf, options: LogOptions, until: Until) -> Result<Self, LogError> {
        let opened = path.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let phase = match until {
                // Watched before it is read, so that no change is missed in between.
                Until::Ended(ended) => Some(ReadingPhase::Following(Follow::new(&opened, ended))),
                Until::Now => None,
            };
            let reader = LogReader::open(&opened, &options)?;
            let phase = match phase {
                Some(phase) => phase,
                None => ReadingPhase::Once { left: reader.left()? },
            };
            Ok(Self { reader, phase })
        });
        opening.await.map_err(|join_error| LogError::Open { path, source: join_error.into() })?
    }

    /// The container's output, in chunks of any size. Ends with an error if the log cannot be read.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, LogError>> + Send {
        try_unfold(self, Self::next)
    }

    async fn next(mut self) -> Result<Option<(Bytes, Self)>, LogError> {
        loop {
            let text;
            (text, self) = self.step().await?;
            if !text.is_empty() {
                return Ok(Some((text.into(), self)));
            }
            if matches!(self.phase, ReadingPhase::Done) {
                return Ok(None);
            }
        }
    }

    /// Reads a chunk, or handles the end of a file.
    async fn step(self) -> Result<(Vec<u8>, Self), LogError> {
        let Self { reader, phase } = self;
        let most = match &phase {
            ReadingPhase::Once { left } => *left,
            ReadingPhase::Following(_)
            | ReadingPhase::Leaving(_)
            | ReadingPhase::Draining
            | ReadingPhase::Done => u64::MAX,
        };
        let (mut reader, (piece, left)) = blocking(reader, move |reader| {
            let before = reader.position();
            let piece = reader.read(most)?;
            Ok((piece, most.saturating_sub(reader.position().saturating_sub(before))))
        })
        .await?;
        if let Piece::Text(text) = piece {
            let phase = match phase {
                ReadingPhase::Once { .. } => ReadingPhase::Once { left },
                ReadingPhase::Following(_)
                | ReadingPhase::Leaving(_)
                | ReadingPhase::Draining
                | ReadingPhase::Done => phase,
            };
            return Ok((text, Self { reader, phase }));
        }
        let (text, phase) = match phase {
            ReadingPhase::Once { .. } | ReadingPhase::Done => (reader.finish(), ReadingPhase::Done),
            ReadingPhase::Following(follow) => {
                let is_rotated;
                (reader, is_rotated) = blocking(reader, |reader| reader.is_rotated()).await?;
                if is_rotated {
                    sleep(HAND_OVER).await;
                    (Vec::new(), ReadingPhase::Leaving(follow))
                } else {
                    follow.wait(&mut reader).await
                }
            }
            ReadingPhase::Leaving(follow) => {
                let piece;
                (reader, piece) = blocking(reader, LogReader::advance).await?;
                (text_of(piece), ReadingPhase::Following(follow))
            }
            ReadingPhase::Draining => {
                let piece;
                (reader, piece) = blocking(reader, LogReader::advance).await?;
                match piece {
                    Piece::Text(text) => (text, ReadingPhase::Draining),
                    Piece::End => (reader.finish(), ReadingPhase::Done),
                }
            }
        };
        Ok((text, Self { reader, phase }))
    }
}

impl Follow {
    fn new(path: &Path, ended: BoxFuture<'static, ()>) -> Self {
        let changed = Arc::new(Changes::default());
        let mut watch = Watch::new(path, "logs", changed.clone());
        watch.renew();
        Self { ended, changed, _watch: watch }
    }

    /// Waits for more text or for the container's exit.
    async fn wait(mut self, reader: &mut LogReader) -> (Vec<u8>, ReadingPhase) {
        tokio::select! {
            // Cancel-safe: not polled again once complete.
            () = &mut self.ended => (Vec::new(), ReadingPhase::Draining),
            // Cancel-safe: a change is consumed only when `next` returns.
            () = self.changed.next() => (Vec::new(), ReadingPhase::Following(self)),
            // Cancel-safe: a sleep.
            () = sleep(FALLBACK) => (reader.settle(), ReadingPhase::Following(self)),
        }
    }
}

fn text_of(piece: Piece) -> Vec<u8> {
    match piece {
        Piece::Text(text) => text,
        Piece::End => Vec::new(),
    }
}

/// Runs blocking work on the blocking pool. The reader is lost if this is dropped, which ends its stream anyway.
async fn blocking<T: Send + 'static>(
    mut reader: LogReader,
    work: impl FnOnce(&mut LogReader) -> Result<T, LogError> + Send + 'static,
) -> Result<(LogReader, T), LogError> {
    let path = reader.path().to_owned();
    let done = tokio::task::spawn_blocking(move || work(&mut reader).map(|done| (reader, done)));
    done.await.map_err(|join_error| LogError::Read { path, source: join_error.into() })?
}

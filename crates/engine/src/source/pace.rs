//! Decides when to read after changes: at once if they are complete, and rarely while they continue. Knows times and events, not
//! files.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use hostlet_host::{Changes, Progress};

/// Complete changes are read at once, but changes soon after a read wait at least this long: they come in groups.
const GROUP_DELAY: Duration = Duration::from_millis(4);
/// The same after a removal: editors rename a file before they write it again, scripts remove and copy. A read in between
/// would terminate a pod.
const REMOVAL_DELAY: Duration = Duration::from_millis(10);
/// A file that is open for writing is read after this long without a write.
const QUIET: Duration = Duration::from_millis(50);
/// Maximum delay, however busy the directory is.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// The pace of reads.
#[derive(Debug, Default)]
pub(super) struct Pace {
    pause: Duration,
    last_read: Option<Instant>,
}

impl Pace {
    /// After a change, waits until it is due to be read. The delay doubles with every change soon after a read, so that thousands
    /// of single changes need few reads.
    pub(super) async fn settle(&mut self, changes: &Changes) {
        let begin = Instant::now();
        let is_soon = self.last_read.is_some_and(|read| begin.duration_since(read) < QUIET);
        self.pause = if is_soon { (self.pause * 2).clamp(GROUP_DELAY, QUIET) } else { Duration::ZERO };
        let end = begin + MAX_DELAY;
        loop {
            let progress = changes.progress();
            let pause = match progress {
                Progress::Complete => self.pause,
                Progress::Removed => self.pause.max(REMOVAL_DELAY),
                Progress::Writing => QUIET,
            };
            if pause.is_zero() {
                // A timer would wait until the next millisecond.
                return;
            }
            let until = end.min(Instant::now() + pause);
            if timeout_at(until, changes.next()).await.is_ok() && Instant::now() < end {
                continue;
            }
            if progress == Progress::Writing {
                changes.forget_writing();
            }
            return;
        }
    }

    /// Records a completed read.
    pub(super) fn record_read(&mut self) {
        self.last_read = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, AccessMode, CreateKind, DataChange, ModifyKind, RemoveKind, RenameMode};
    use notify::{Event, EventKind};
    use tokio::time::{sleep, sleep_until};

    use super::*;

    const CREATE: EventKind = EventKind::Create(CreateKind::File);
    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    const REMOVE: EventKind = EventKind::Remove(RemoveKind::File);
    const FROM: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::From));
    const TO: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));

    /// The times of reads for events at these times, both in milliseconds from the start.
    async fn readings(events: impl IntoIterator<Item = (u64, EventKind, &str)>) -> Vec<u128> {
        let (changes, begin, mut readings) = (Changes::default(), Instant::now(), Vec::new());
        let read = async {
            let mut pace = Pace::default();
            loop {
                changes.next().await;
                pace.settle(&changes).await;
                readings.push(begin.elapsed().as_millis());
                pace.record_read();
            }
        };
        let write = async {
            for (at, kind, path) in events {
                sleep_until(begin + Duration::from_millis(at)).await;
                changes.apply(&Event::new(kind).add_path(path.into()));
            }
            sleep(MAX_DELAY * 2).await;
        };
        tokio::select! { () = read => {}, () = write => {} }
        readings
    }

    #[tokio::test(start_paused = true)]
    async fn a_complete_change_is_read_at_once() {
        assert_eq!(readings([(0, CREATE, "a"), (0, WRITE, "a"), (1, CLOSE, "a")]).await, [1]);
        assert_eq!(readings([(0, TO, "a")]).await, [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_after_it_was_closed() {
        let slow = [(0, CREATE, "a"), (30, WRITE, "a"), (60, WRITE, "a"), (61, CLOSE, "b"), (90, CLOSE, "a")];
        assert_eq!(readings(slow).await, [90]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_never_closed_is_read_and_delays_no_other() {
        assert_eq!(readings([(0, CREATE, "link"), (200, TO, "a")]).await, [50, 200]);
        let long = (0..300).map(|n| (n * 7, WRITE, "a"));
        assert_eq!(readings(long).await, [1000, 2001, 2093 + 50]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_file_may_come_back_before_the_read() {
        assert_eq!(readings([(0, REMOVE, "a")]).await, [10]);
        assert_eq!(readings([(0, REMOVE, "a"), (5, CREATE, "a"), (6, CLOSE, "a")]).await, [6]);
        let editor = [(0, FROM, "a"), (0, TO, "a~"), (0, CREATE, "a"), (40, WRITE, "a"), (41, CLOSE, "a")];
        assert_eq!(readings(editor).await, [41]);
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_changes_need_few_reads() {
        for pause in [0, 1, 3, 10, 40] {
            let files = (0..2000).flat_map(|n| [(n * pause, CREATE, "a"), (n * pause, CLOSE, "a")]);
            let readings = readings(files).await.len() as u64;
            let seconds = 2000 * pause / 1000;
            assert!(readings <= 10 + seconds, "{readings} readings, a file each {pause} ms");
        }
    }
}

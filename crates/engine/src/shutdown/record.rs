//! What survives the shutdown: its times, in upstream's file, and the pods of the API server that it ended, in the store.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use hostlet_base::{PodUid, error_chain};
use hostlet_host::{file_work, replace_file};
use hostlet_store::{Store, Table};

/// Upstream's file in the root directory.
const FILE: &str = "graceful_node_shutdown_state";

/// Go's zero time, for a time that is not known.
const ZERO: &str = "0001-01-01T00:00:00Z";

/// When the last shutdown began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShutdownTimes {
    pub(super) start: Option<Timestamp>,
    /// None while it is under way, or if the host went down before the pods had ended.
    pub(super) end: Option<Timestamp>,
}

/// The content of the file (upstream `state`).
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    start_time: String,
    end_time: String,
}

impl ShutdownTimes {
    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let state: State = serde_json::from_str(text)?;
        let time = |text: &str| text.parse().ok().filter(|_| text != ZERO);
        Ok(Self { start: time(&state.start_time), end: time(&state.end_time) })
    }

    /// How long the shutdown has been under way that an earlier daemon began; `None` if there is none. One that is older than
    /// what logind grants is of an earlier boot.
    pub(super) fn under_way_for(self, now: Timestamp, granted: Duration) -> Option<Duration> {
        let start = self.start.filter(|_| self.end.is_none())?;
        Duration::try_from(now.duration_since(start)).ok().filter(|elapsed| *elapsed < granted)
    }

    fn text(self) -> Result<String, serde_json::Error> {
        let time = |time: Option<Timestamp>| time.map_or_else(|| ZERO.to_owned(), |time| time.to_string());
        serde_json::to_string(&State { start_time: time(self.start), end_time: time(self.end) })
    }
}

/// The file of the times in this root directory.
pub(super) fn state_file(root_dir: &Path) -> PathBuf {
    root_dir.join(FILE)
}

/// The file of the times; none if they are not recorded.
#[derive(Clone, Debug)]
pub(super) struct TimesFile(Option<PathBuf>);

impl TimesFile {
    /// The file in this root directory.
    pub(super) fn new(root_dir: &Path, is_recorded: bool) -> Self {
        Self(is_recorded.then(|| state_file(root_dir)))
    }

    /// The recorded times. A file that cannot be read counts as none.
    pub(super) async fn read(&self) -> ShutdownTimes {
        let Some(path) = self.0.clone() else { return ShutdownTimes::default() };
        let file = path.clone();
        let read = file_work(move || std::fs::read_to_string(file)).await;
        match read.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(text) => ShutdownTimes::parse(&text).unwrap_or_else(|error| {
                tracing::warn!(file = %path.display(), %error, "cannot read the times of the last shutdown");
                ShutdownTimes::default()
            }),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(file = %path.display(), %error, "cannot read the times of the last shutdown");
                }
                ShutdownTimes::default()
            }
        }
    }

    /// Records the times. A failure is logged: a shutdown continues without them.
    pub(super) async fn write(&self, times: ShutdownTimes) {
        let Some(path) = self.0.clone() else { return };
        let file = path.clone();
        let written = file_work(move || replace_file(&file, times.text()?.as_bytes(), 0o644)).await;
        if let Err(error) = written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            let error = error_chain(&error);
            tracing::warn!(file = %path.display(), error, "cannot record the times of the shutdown");
        }
    }
}

/// A row in the store.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    ended_at: Timestamp,
}

/// The pods of the API server that shutdowns ended. They stay ended, also if the API server has not seen it yet: a host starts
/// again without it. Static pods are not among them, since they start again with the host.
#[derive(Clone)]
pub(super) struct EndedPods(pub(super) Store);

impl EndedPods {
    pub(super) fn all(&self) -> Vec<PodUid> {
        self.0.all::<Row>(Table::EndedByShutdown).into_iter().map(|(uid, _)| uid.as_str().into()).collect()
    }

    pub(super) fn add(&self, uid: &PodUid, now: Timestamp) {
        self.0.put(Table::EndedByShutdown, uid.as_str(), &Row { ended_at: now });
    }

    pub(super) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.retain(Table::EndedByShutdown, keep);
    }

    /// Waits until they are on the disk.
    pub(super) async fn written(&self) {
        self.0.written().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_that_an_earlier_daemon_began_goes_on() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let granted = Duration::from_secs(30);
        let begun = ShutdownTimes { start: Some(at(100)), end: None };
        assert_eq!(begun.under_way_for(at(112), granted), Some(Duration::from_secs(12)));
        assert_eq!(begun.under_way_for(at(130), granted), None, "of an earlier boot");
        assert_eq!(begun.under_way_for(at(99), granted), None, "the clock was set back");
        let ended = ShutdownTimes { end: Some(at(110)), ..begun };
        assert_eq!(ended.under_way_for(at(112), granted), None);
        assert_eq!(ShutdownTimes::default().under_way_for(at(112), granted), None);
    }

    #[tokio::test]
    async fn the_times_are_upstreams_json() {
        let root = tempfile::tempdir().unwrap();
        let file = TimesFile::new(root.path(), true);
        assert_eq!(file.read().await, ShutdownTimes::default());
        let start = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let times = ShutdownTimes { start: Some(start), end: None };
        file.write(times).await;
        let text = std::fs::read_to_string(root.path().join(FILE)).unwrap();
        assert_eq!(text, r#"{"startTime":"2026-01-02T03:04:05.678Z","endTime":"0001-01-01T00:00:00Z"}"#);
        assert_eq!(file.read().await, times);
        // As a stock kubelet writes them, in the host's time zone.
        let by_kubelet =
            r#"{"startTime":"2026-01-02T04:04:05.678+01:00","endTime":"2026-01-02T04:04:15.1+01:00"}"#;
        std::fs::write(root.path().join(FILE), by_kubelet).unwrap();
        let end = "2026-01-02T03:04:15.1Z".parse().unwrap();
        assert_eq!(file.read().await, ShutdownTimes { start: Some(start), end: Some(end) });
        for broken in ["", "{", r#"{"startTime": 7}"#, "\u{0}"] {
            std::fs::write(root.path().join(FILE), broken).unwrap();
            assert_eq!(file.read().await, ShutdownTimes::default(), "{broken:?}");
        }
        let none = TimesFile::new(root.path(), false);
        none.write(times).await;
        assert_eq!(none.read().await, ShutdownTimes::default());
    }
}

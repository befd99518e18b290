//! Keeps the state of the manifest source current: reads changed files on inotify events, and everything periodically. Thin: file
//! access is in [`Files`] and [`Watch`], timing in [`Pace`], decisions in [`Reader`] and [`UrlReader`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::Rescan;
use hostlet_host::{Changes, Watch};
use hostlet_net::http::Fetcher;
use hostlet_pod::objects::Standalone;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::files::{Files, MAX_SIZE};
use super::merge;
use super::pace::Pace;
use super::reader::Reader;
use super::state::{SourceState, StaticPod};
use super::url::UrlReader;

/// The minimum interval between full reads; a shorter one would only waste CPU.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The location of manifests.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The directory or file (`staticPodPath`); `None` for no static pods.
    pub path: Option<PathBuf>,
    /// The name of this node, which is appended to the names of pods.
    pub node_name: String,
    /// How often everything is checked without events (`fileCheckFrequency`); at least a second.
    pub check_frequency: Duration,
    /// Requests to check everything now.
    pub rescan: Rescan,
    /// Where objects in manifests go; `None` on a node with an API server.
    pub objects: Option<Standalone>,
    /// A URL that serves pods, too (`staticPodURL`).
    pub url: Option<UrlSource>,
}

/// A URL that serves pods.
#[derive(Debug, Clone)]
pub struct UrlSource {
    /// Fetches it.
    pub fetcher: Fetcher,
    /// How often it is fetched (`httpCheckFrequency`); at least a second.
    pub check_frequency: Duration,
}

/// Publishes the state of the manifests until cancelled: first when all files were read once, then on every change. `adopted`
/// are the pods that a previous daemon read, oldest first; they are used for what cannot be read.
pub async fn run(
    config: SourceConfig,
    adopted: Vec<StaticPod>,
    tx: watch::Sender<SourceState>,
    cancel: CancellationToken,
) {
    let (files_tx, files) = watch::channel(SourceState::default());
    let (url_tx, url) = watch::channel(SourceState::default());
    tokio::join!(
        read_url(&config, &adopted, url_tx, &cancel),
        read_files(config.clone(), &adopted, files_tx, &cancel),
        merge::run(files, url, tx, cancel.clone()),
    );
}

/// Fetches the URL periodically.
async fn read_url(
    config: &SourceConfig,
    adopted: &[StaticPod],
    tx: watch::Sender<SourceState>,
    cancel: &CancellationToken,
) {
    let Some(mut source) = config.url.clone() else {
        tx.send_replace(SourceState { ready: true, ..SourceState::default() });
        return;
    };
    let (url, is_alone) = (source.fetcher.url().clone(), config.objects.is_some());
    let mut reader = UrlReader::new(&url, &config.node_name, is_alone, adopted);
    tx.send_replace(reader.state());
    let mut rescan = config.rescan.clone();
    let check_frequency = source.check_frequency.max(MIN_CHECK_INTERVAL);
    loop {
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: a fetch changes nothing
            answer = source.fetcher.get(MAX_SIZE) => answer,
        };
        if reader.apply(answer, Timestamp::now()) {
            tx.send_replace(reader.state());
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: nothing is lost
            () = rescan.requested() => {} // cancel-safe as documented there
            () = sleep(check_frequency) => {} // cancel-safe: a pause takes nothing
        }
    }
}

/// Reads the files on changes and periodically.
async fn read_files(
    config: SourceConfig,
    adopted: &[StaticPod],
    tx: watch::Sender<SourceState>,
    cancel: &CancellationToken,
) {
    let Some(path) = config.path else {
        if let Some(objects) = &config.objects {
            objects.set([]);
        }
        tx.send_replace(SourceState { ready: true, ..SourceState::default() });
        return;
    };
    // Events have absolute paths. Without a working directory, the path stays relative and only events are lost.
    let path = std::path::absolute(&path).unwrap_or(path);
    let changed = Arc::new(Changes::with_deletions());
    let (objects, node_name) = (config.objects, config.node_name);
    let fresh = |known: &[StaticPod]| Disk::new(&path, &changed, &node_name, objects.is_some(), known);
    let mut disk = Some(fresh(adopted));
    let mut rescan = config.rescan;
    let mut pace = Pace::default();
    let check_frequency = config.check_frequency.max(MIN_CHECK_INTERVAL);
    loop {
        let now = Timestamp::now();
        let ready = disk.take().unwrap_or_else(|| {
            let known: Vec<StaticPod> = tx.borrow().pods.iter().map(|pod| StaticPod::clone(pod)).collect();
            fresh(&known)
        });
        // A read may block for long (network filesystem, thousands of files), but only this task waits for it.
        let read = tokio::task::spawn_blocking(move || ready.read(now));
        let pass = tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: the read finishes by itself and is dropped
            pass = read => pass,
        };
        match pass {
            Ok((returned, changed)) => {
                publish(&returned.reader, changed, &tx, objects.as_ref());
                disk = Some(returned);
            }
            Err(error) => {
                error!(path = %path.display(), %error, "reading the manifests panicked; starting over")
            }
        }
        pace.record_read();
        tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: nothing is lost
            () = changed.next() => pace.settle(&changed).await, // cancel-safe: a pending change stays
            () = rescan.requested() => {} // cancel-safe as documented there
            () = sleep(check_frequency) => {} // cancel-safe: a pause takes nothing
        }
    }
}

/// The state of reading, moved to a blocking thread and back.
struct Disk {
    path: PathBuf,
    files: Files,
    watch: Watch,
    changes: Arc<Changes>,
    reader: Reader,
}

impl Disk {
    fn new(
        path: &Path,
        changed: &Arc<Changes>,
        node_name: &str,
        is_alone: bool,
        known: &[StaticPod],
    ) -> Self {
        let watch = Watch::new(path, "manifests", Arc::clone(changed));
        // Manifests at other paths are not read, so their pods are not adopted.
        let is_here = |pod: &&StaticPod| {
            pod.origin.file().is_some_and(|file| file == path || file.parent() == Some(path))
        };
        let known: Vec<StaticPod> = known.iter().filter(is_here).cloned().collect();
        let reader = Reader::new(node_name, is_alone, &known);
        let (path, changes) = (path.to_owned(), Arc::clone(changed));
        Self { path, files: Files::default(), watch, changes, reader }
    }

    /// Sets up the watch before reading, so that no change is missed. Returns whether anything changed.
    fn read(mut self, now: Timestamp) -> (Self, bool) {
        self.watch.renew();
        // Before reading: what is deleted later is a change for the next pass.
        let deleted = self.changes.take_deleted();
        self.files.forget(&deleted);
        self.reader.forget(&deleted);
        let changed = self.reader.apply(self.files.read(&self.path, now), now);
        (self, changed)
    }
}

fn publish(reader: &Reader, changed: bool, tx: &watch::Sender<SourceState>, objects: Option<&Standalone>) {
    if !changed && tx.borrow().ready {
        return;
    }
    // Before the pods that refer to them.
    if let Some(objects) = objects {
        objects.set(reader.objects());
    }
    tx.send_replace(reader.state());
}

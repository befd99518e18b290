//! Keeps the state of the source true to the disk: reads on every change that inotify tells of, and all of it
//! periodically. Thin: the disk is [`Files`] and [`Watch`], when to read it is [`Pace`], the judgement is [`Reader`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::files::Files;
use super::pace::Pace;
use super::reader::{Reader, mended_files, new_problems};
use super::state::{SourceState, StaticPod};
use crate::sys::{Changes, Watch};

/// The shortest period of full readings; a shorter one would only burn the processor.
const CHECK_LEAST: Duration = Duration::from_secs(1);

/// Where the manifests are.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The directory or file (`staticPodPath`). None: there are no manifests.
    pub path: Option<PathBuf>,
    /// The name of this node, which the pods' names end with.
    pub node_name: String,
    /// How often everything is looked at again, whatever inotify tells (`fileCheckFrequency`). At least a second.
    pub check_frequency: Duration,
}

/// Publishes what the manifests say, until `cancel`. The first state comes when everything was read once; after that
/// one comes only when something changed. `inherited` is what a daemon before this one had read of them, oldest first: what
/// cannot be read now is as it was then, just as what cannot be read any more stays as it is.
pub async fn run(
    config: SourceConfig,
    inherited: Vec<StaticPod>,
    tx: watch::Sender<SourceState>,
    cancel: CancellationToken,
) {
    let Some(path) = config.path else {
        tx.send_replace(SourceState { ready: true, ..SourceState::default() });
        cancel.cancelled().await;
        return;
    };
    // Events carry absolute paths. Without a working directory the path stays as it is, and only events are lost.
    let path = std::path::absolute(&path).unwrap_or(path);
    let changed = Arc::new(Changes::default());
    let fresh = |known: &[StaticPod]| Disk::new(&path, &changed, &config.node_name, known);
    let mut disk = Some(fresh(&inherited));
    drop(inherited);
    let mut pace = Pace::default();
    let check_frequency = config.check_frequency.max(CHECK_LEAST);
    loop {
        let now = Timestamp::now();
        let ready = disk.take().unwrap_or_else(|| {
            let known: Vec<StaticPod> = tx.borrow().pods.iter().map(|pod| StaticPod::clone(pod)).collect();
            fresh(&known)
        });
        // Reading may block for long (a network file system, thousands of files), but only this task waits for it.
        let read = tokio::task::spawn_blocking(move || ready.read(now));
        let pass = tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: the reading ends by itself and is dropped
            pass = read => pass,
        };
        match pass {
            Ok((back, changed)) => {
                publish(&back.reader, changed, &tx);
                disk = Some(back);
            }
            Err(error) => {
                error!(path = %path.display(), %error, "reading the manifests ended early; starting afresh")
            }
        }
        pace.has_read();
        tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: nothing is lost on the way out
            () = changed.next() => pace.settle(&changed).await, // cancel-safe: a change not taken stays
            () = sleep(check_frequency) => {} // cancel-safe: the next round sleeps anew
        }
    }
}

/// What reading needs, moved to the blocking thread and back.
struct Disk {
    path: PathBuf,
    files: Files,
    watch: Watch,
    reader: Reader,
}

impl Disk {
    fn new(path: &Path, changed: &Arc<Changes>, node_name: &str, known: &[StaticPod]) -> Self {
        let watch = Watch::new(path, "manifests", Arc::clone(changed));
        // Of manifests elsewhere nothing is read here, so nothing could be said of them either.
        let is_here = |pod: &&StaticPod| pod.file == path || pod.file.parent() == Some(path);
        let known: Vec<StaticPod> = known.iter().filter(is_here).cloned().collect();
        let reader = Reader::new(node_name, &known);
        Self { path: path.to_owned(), files: Files::default(), watch, reader }
    }

    /// Watches before it reads, so that no change falls between the two. Answers whether anything changed.
    fn read(mut self, now: Timestamp) -> (Self, bool) {
        self.watch.renew();
        let changed = self.reader.apply(self.files.read(&self.path, now), now);
        (self, changed)
    }
}

fn publish(reader: &Reader, changed: bool, tx: &watch::Sender<SourceState>) {
    if !changed && tx.borrow().ready {
        return;
    }
    let before = tx.borrow().clone();
    let next = reader.state();
    for problem in new_problems(&before, &next) {
        let pod = problem.pod.as_deref().unwrap_or_default();
        warn!(file = %problem.file.display(), pod, problem = problem.message, "manifest cannot be used");
    }
    for file in mended_files(&before, &next) {
        info!(file = %file.display(), "manifest is in order again or gone");
    }
    tx.send_replace(next);
}

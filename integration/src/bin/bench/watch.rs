//! containerd's events with their times of arrival: exact, and without polling, which would slow down the measured
//! programs. Works with containerd 1.6 and 2, independently of hostlet.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use containerd_client::events as ctrd;
use containerd_client::services::v1::SubscribeRequest;
use containerd_client::services::v1::events_client::EventsClient;
use jiff::Timestamp;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

const TOPICS: [&str; 3] = ["/tasks/start", "/tasks/exit", "/containers/delete"];

/// The kind of an event of a container or sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Its process runs, with this pid.
    Started(u32),
    Exited,
    Removed,
}

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at: Instant,
    /// The same on the wall clock.
    pub(crate) wall: Timestamp,
    pub(crate) id: String,
    pub(crate) what: What,
}

/// The events since the watcher was created.
pub(crate) struct Watcher {
    seen: Arc<Mutex<Vec<Event>>>,
    count: watch::Receiver<usize>,
    _task: JoinSet<Result<()>>,
}

impl Watcher {
    /// Watches the containerd on `socket`. Events of the next few milliseconds may still be missed.
    pub(crate) async fn start(socket: &Path) -> Result<Self> {
        let channel = containerd_client::connect(socket).await.context("connecting to containerd")?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (count_in, count) = watch::channel(0);
        let mut task = JoinSet::new();
        let log = seen.clone();
        task.spawn(async move {
            let filters = TOPICS.map(|topic| format!("namespace==k8s.io,topic==\"{topic}\"")).to_vec();
            let mut events =
                EventsClient::new(channel).subscribe(SubscribeRequest { filters }).await?.into_inner();
            while let Some(envelope) = events.message().await? {
                let (at, wall) = (Instant::now(), Timestamp::now());
                let Some((id, what)) = envelope.event.and_then(|e| read(&e.type_url, &e.value)) else {
                    continue;
                };
                let mut seen = log.lock();
                seen.push(Event { at, wall, id, what });
                count_in.send_replace(seen.len());
            }
            Ok(())
        });
        Ok(Self { seen, count, _task: task })
    }

    /// The number of events so far, a mark for later queries.
    pub(crate) fn mark(&self) -> usize {
        self.seen.lock().len()
    }

    /// The events after `mark`.
    pub(crate) fn since(&self, mark: usize) -> Vec<Event> {
        self.seen.lock()[mark..].to_vec()
    }

    /// Waits until `found` returns a result for the events after `mark`, and returns it.
    pub(crate) async fn wait<T>(
        &self,
        mark: usize,
        what: &str,
        timeout: Duration,
        mut found: impl FnMut(&[Event]) -> Option<T>,
    ) -> Result<T> {
        let mut count = self.count.clone();
        let end = Instant::now() + timeout;
        loop {
            count.borrow_and_update();
            if let Some(found) = found(&self.seen.lock()[mark..]) {
                return Ok(found);
            }
            match tokio::time::timeout_at(end, count.changed()).await {
                Ok(changed) => changed.context("containerd's event stream ended")?,
                Err(_) => bail!("not within {timeout:?}: {what}; events: {:?}", self.since(mark)),
            }
        }
    }
}

fn read(type_url: &str, value: &[u8]) -> Option<(String, What)> {
    match type_url.rsplit('/').next()? {
        "containerd.events.ContainerDelete" => {
            Some((ctrd::ContainerDelete::decode(value).ok()?.id, What::Removed))
        }
        "containerd.events.TaskStart" => {
            let start = ctrd::TaskStart::decode(value).ok()?;
            Some((start.container_id, What::Started(start.pid)))
        }
        "containerd.events.TaskExit" => {
            let exit = ctrd::TaskExit::decode(value).ok()?;
            // Processes of `exec` exit too; only the first process has the container's own id.
            (exit.id == exit.container_id).then_some((exit.container_id, What::Exited))
        }
        _ => None,
    }
}

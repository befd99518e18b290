//! A watch: the events since a version, then new ones.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::objects::{Change, kind_of};
use super::path::{Selector, Target};
use super::server::FakeApi;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchFault {
    None,
    /// Reset after this many events.
    Cut(usize),
    /// Ended properly after this many events.
    End(usize),
    /// Silent after this many events.
    HalfOpen(usize),
}

/// What a watch shows first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchBegin {
    /// The changes after this version.
    After(u64),
    /// All objects.
    Objects,
}

/// The lines of all objects, and of the bookmark that ends them.
pub(super) fn initial_events(target: &Target, objects: Vec<Value>, version: u64) -> VecDeque<Bytes> {
    let mut lines: VecDeque<Bytes> = objects.iter().map(|object| line("ADDED", object)).collect();
    let mut end = bookmark(target, version);
    end["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    lines.push_back(line("BOOKMARK", &end));
    lines
}

fn bookmark(target: &Target, version: u64) -> Value {
    let (api_version, kind) = kind_of(&target.resource);
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"resourceVersion": version.to_string(), "creationTimestamp": null}})
}

/// A watch and its progress.
pub(super) struct Watching {
    pub(super) api: FakeApi,
    pub(super) target: Target,
    pub(super) selector: Selector,
    /// The version that the client has seen.
    pub(super) version: u64,
    pub(super) fault: WatchFault,
    pub(super) changed: watch::Receiver<u64>,
    pub(super) waiting: VecDeque<Bytes>,
    pub(super) sent: usize,
    /// Number of bookmarks sent.
    pub(super) bookmarks: u64,
}

impl Watching {
    /// The lines of the watch, one event each.
    pub(super) fn lines(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send {
        stream::unfold(Some(self), |watching| async {
            let mut watching = watching?;
            let line = watching.next().await;
            let continues = line.as_ref().is_ok_and(|line| !line.is_empty());
            match line {
                Ok(line) if line.is_empty() => None,
                line => Some((line, continues.then_some(watching))),
            }
        })
    }

    async fn next(&mut self) -> Result<Bytes, std::io::Error> {
        loop {
            match self.fault {
                WatchFault::Cut(after) if self.sent >= after => {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
                }
                WatchFault::End(after) if self.sent >= after => return Ok(Bytes::new()),
                WatchFault::HalfOpen(after) if self.sent >= after => return std::future::pending().await,
                WatchFault::None | WatchFault::Cut(_) | WatchFault::End(_) | WatchFault::HalfOpen(_) => {}
            }
            if let Some(line) = self.waiting.pop_front() {
                self.sent += 1;
                return Ok(line);
            }
            if !self.queue_events() && self.changed.changed().await.is_err() {
                return Ok(Bytes::new());
            }
        }
    }

    /// Queues new events; returns whether there are any.
    fn queue_events(&mut self) -> bool {
        self.changed.borrow_and_update();
        let state = self.api.lock();
        if self.version < state.objects.compacted {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
                "message": "too old resource version", "code": 410});
            self.waiting.push_back(line("ERROR", &status));
            self.version = u64::MAX;
            return true;
        }
        for change in &state.objects.history {
            if change.version > self.version && self.is_selected(change) {
                self.waiting.push_back(line(change.kind, &change.object));
            }
        }
        self.version = self.version.max(state.objects.version);
        if state.bookmarks > self.bookmarks {
            self.bookmarks = state.bookmarks;
            self.waiting.push_back(line("BOOKMARK", &bookmark(&self.target, self.version)));
        }
        !self.waiting.is_empty()
    }

    fn is_selected(&self, change: &Change) -> bool {
        let namespace = change.object["metadata"]["namespace"].as_str().unwrap_or_default();
        change.resource == self.target.resource
            && (self.target.namespace.is_empty() || self.target.namespace == namespace)
            && self.selector.selects(&change.object)
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": kind, "object": object})))
}

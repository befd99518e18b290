//! The connections for one kind of use: which of them takes the next stream, and how many there are. Dials nothing itself.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::connection::{Connection, Place};

/// How many connections of a kind there are, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneCounts {
    /// What they are used for.
    pub purpose: String,
    /// Those that are open.
    pub open: usize,
    /// Requests and watches on them.
    pub streams: usize,
    /// Those that were made so far.
    pub made: u64,
    /// Those that were lost: ended otherwise than by us or the server's wish.
    pub lost: u64,
}

/// All connections to the API server, for whoever shows them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<Vec<Arc<Lane>>>>);

impl Connections {
    /// Counts one more lane. One of the same purpose whose client was made anew is counted for as long as it carries
    /// anything.
    pub(super) fn add(&self, lane: Arc<Lane>) {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|known| Arc::strong_count(known) > 1);
        lanes.push(lane);
    }

    /// The counts of each purpose.
    pub fn counts(&self) -> Vec<LaneCounts> {
        let mut all: Vec<LaneCounts> = Vec::new();
        for lane in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let counts = lane.counts();
            match all.iter_mut().find(|known| known.purpose == counts.purpose) {
                Some(known) => {
                    known.open += counts.open;
                    known.streams += counts.streams;
                    known.made += counts.made;
                    known.lost += counts.lost;
                }
                None => all.push(counts),
            }
        }
        all
    }
}

/// The connections for one kind of use.
#[derive(Debug)]
pub(super) struct Lane {
    purpose: &'static str,
    connections: Mutex<Vec<Connection>>,
    /// Held while a connection is made, so that a crowd makes one and shares it.
    pub(super) dialing: tokio::sync::Mutex<()>,
    /// How often none could be made, and why the last time.
    failure: Mutex<(u64, String)>,
    open: AtomicUsize,
    streams: AtomicUsize,
    made: AtomicU64,
    lost: AtomicU64,
}

impl Lane {
    pub(super) fn new(purpose: &'static str) -> Arc<Self> {
        Arc::new(Self {
            purpose,
            connections: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
            open: AtomicUsize::default(),
            streams: AtomicUsize::default(),
            made: AtomicU64::default(),
            lost: AtomicU64::default(),
        })
    }

    /// A place on the first connection that has room; none if there is no such connection. Those that are of no more use
    /// are let go: what is still on them ends in its own time.
    pub(super) fn place(self: &Arc<Self>) -> Option<Place> {
        let mut connections = self.connections();
        connections.retain(Connection::is_usable);
        let free = connections.iter().find(|connection| connection.has_room())?;
        Some(free.place(self))
    }

    /// One more connection.
    pub(super) fn add(&self, connection: Connection) {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.connections().push(connection);
    }

    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn closed(&self, is_lost: bool) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.lost.fetch_add(u64::from(is_lost), Ordering::Relaxed);
    }

    pub(super) fn stream_began(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Of several connections one that carries nothing any more is closed.
    pub(super) fn stream_ended(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
        let mut connections = self.connections();
        if connections.len() > 1
            && let Some(idle) = connections.iter().rposition(|connection| connection.streams() == 0)
        {
            connections.remove(idle);
        }
    }

    /// How often no connection could be made so far.
    pub(super) fn failures(&self) -> u64 {
        self.failure().0
    }

    /// No connection could be made.
    pub(super) fn failed(&self, why: &str) {
        let mut failure = self.failure();
        *failure = (failure.0 + 1, why.to_owned());
    }

    /// Why no connection could be made the last time, if that was after `failures` times.
    pub(super) fn failed_since(&self, failures: u64) -> Option<String> {
        let failure = self.failure();
        (failure.0 > failures).then(|| failure.1.clone())
    }

    fn counts(&self) -> LaneCounts {
        LaneCounts {
            purpose: self.purpose.to_owned(),
            open: self.open.load(Ordering::Relaxed),
            streams: self.streams.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, (u64, String)> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

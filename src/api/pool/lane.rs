//! The connections for one kind of use: which of them takes the next stream; and how many there are. Dials nothing itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
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

/// The counts of all connections to the API server, by what they are used for, for whoever shows them. They outlive the
/// clients whose connections they count. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<Vec<Arc<Counts>>>>);

impl Connections {
    /// What counts the connections of this purpose.
    fn of(&self, purpose: &'static str) -> Arc<Counts> {
        let mut all = self.0.lock();
        if let Some(known) = all.iter().find(|known| known.purpose == purpose) {
            return known.clone();
        }
        let new = Arc::new(Counts { purpose, ..Counts::default() });
        all.push(new.clone());
        new
    }

    /// The counts of each purpose.
    pub fn counts(&self) -> Vec<LaneCounts> {
        self.0.lock().iter().map(|counts| counts.now()).collect()
    }
}

/// The counts of one kind of use.
#[derive(Debug, Default)]
pub(super) struct Counts {
    purpose: &'static str,
    open: AtomicUsize,
    streams: AtomicUsize,
    made: AtomicU64,
    lost: AtomicU64,
}

impl Counts {
    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn closed(&self, is_lost: bool) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.lost.fetch_add(u64::from(is_lost), Ordering::Relaxed);
    }

    fn now(&self) -> LaneCounts {
        LaneCounts {
            purpose: self.purpose.to_owned(),
            open: self.open.load(Ordering::Relaxed),
            streams: self.streams.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

/// The connections of a client for one kind of use.
pub(super) struct Lane {
    connections: Mutex<Vec<Connection>>,
    /// Held while a connection is made, so that a crowd makes one and shares it.
    pub(super) dialing: tokio::sync::Mutex<()>,
    /// How often none could be made, and why the last time.
    failure: Mutex<(u64, String)>,
    counts: Arc<Counts>,
}

impl Lane {
    /// One whose connections are counted in `connections`.
    pub(super) fn new(purpose: &'static str, connections: &Connections) -> Arc<Self> {
        Arc::new(Self {
            connections: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
            counts: connections.of(purpose),
        })
    }

    pub(super) fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
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
        self.connections().push(connection);
    }

    pub(super) fn stream_began(&self) {
        self.counts.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Of several connections one that carries nothing any more is closed.
    pub(super) fn stream_ended(&self) {
        self.counts.streams.fetch_sub(1, Ordering::Relaxed);
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

    fn connections(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock()
    }

    fn failure(&self) -> MutexGuard<'_, (u64, String)> {
        self.failure.lock()
    }
}

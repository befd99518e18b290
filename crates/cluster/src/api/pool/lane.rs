//! A lane: the connections for one purpose. Selects the connection of the next stream and counts connections. Dials nothing
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::super::requests::RequestMetrics;
use super::connection::{Connection, ConnectionStream};

/// Connection counts of a purpose, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneCounts {
    /// The client's purpose, as the metric's label has it.
    pub purpose: String,
    /// Open connections.
    pub open: usize,
    /// Open requests and watches.
    pub streams: usize,
    /// Connections made in total.
    pub made: u64,
    /// Connections lost in total: not closed by us and not gracefully by the server.
    pub lost: u64,
    /// The last response; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_response: Option<Timestamp>,
}

/// Counts of all connections to the API server by purpose. They outlive the clients. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    lanes: Arc<Mutex<Vec<Arc<Counts>>>>,
    /// The requests on them.
    pub(in crate::api) requests: RequestMetrics,
}

impl Connections {
    /// The counters of this purpose.
    fn of(&self, purpose: &'static str) -> Arc<Counts> {
        let mut all = self.lanes.lock();
        if let Some(known) = all.iter().find(|known| known.purpose == purpose) {
            return known.clone();
        }
        let new = Arc::new(Counts { purpose, ..Counts::default() });
        all.push(new.clone());
        new
    }

    /// The counts of all purposes.
    pub fn counts(&self) -> Vec<LaneCounts> {
        self.lanes.lock().iter().map(|counts| counts.now()).collect()
    }
}

/// The counters of a purpose.
#[derive(Debug, Default)]
pub(super) struct Counts {
    purpose: &'static str,
    open: AtomicUsize,
    streams: AtomicUsize,
    made: AtomicU64,
    lost: AtomicU64,
    /// In milliseconds since the epoch; 0 before the first.
    last_response: AtomicI64,
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
            last_response: Some(self.last_response.load(Ordering::Relaxed))
                .filter(|millis| *millis > 0)
                .and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        }
    }
}

/// A client's connections for one purpose.
pub(super) struct Lane {
    connections: Mutex<Vec<Connection>>,
    /// Held while dialing, so that concurrent requests share one new connection.
    pub(super) dialing: tokio::sync::Mutex<()>,
    /// Number of failed dials, and the last error.
    failure: Mutex<(u64, String)>,
    counts: Arc<Counts>,
}

impl Lane {
    /// A lane counted in `connections`.
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

    /// A stream on the first connection with capacity, if any. Unusable connections are dropped; their open streams finish.
    pub(super) fn open(&self) -> Option<ConnectionStream> {
        let mut connections = self.connections();
        connections.retain(Connection::is_usable);
        let free = connections.iter().find(|connection| connection.has_capacity())?;
        self.counts.streams.fetch_add(1, Ordering::Relaxed);
        Some(free.open())
    }

    pub(super) fn add(&self, connection: Connection) {
        self.connections().push(connection);
    }

    /// Closes an idle connection if there are several.
    pub(super) fn stream_ended(&self) {
        self.counts.streams.fetch_sub(1, Ordering::Relaxed);
        let mut connections = self.connections();
        if connections.len() > 1
            && let Some(idle) = connections.iter().rposition(|connection| connection.streams() == 0)
        {
            connections.remove(idle);
        }
    }

    /// Records a response.
    pub(super) fn answered(&self) {
        self.counts.last_response.store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
    }

    /// Number of failed dials so far.
    pub(super) fn failures(&self) -> u64 {
        self.failure().0
    }

    /// Records a failed dial.
    pub(super) fn failed(&self, why: &str) {
        let mut failure = self.failure();
        *failure = (failure.0 + 1, why.to_owned());
    }

    /// The error of the last failed dial, if there were more than `failures`.
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

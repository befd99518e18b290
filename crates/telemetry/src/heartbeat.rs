//! Heartbeats of the main loops: whether each one would notice a wake-up. A loop is asked, and answers when it is polled, so an
//! idle daemon makes no extra wake-up for them. Never decides what to do about a loop that does not answer.
//!
//! A loop that waits, for however long, for the runtime or the API server is alive, because its `select!` answers. A step inside
//! a loop that cannot answer announces how long it may take ([`Heartbeat::alive_for`]).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::metrics::Metrics;

/// How long a loop may take to answer. Steps between two awaits take milliseconds; this is for a machine that swaps.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Longer than any daemon runs.
const SUSPENDED: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The heartbeats of all loops. Cheap to clone; clones share one list.
#[derive(Clone, Default)]
pub struct Heartbeats {
    loops: Arc<Mutex<Vec<Heartbeat>>>,
}

/// The heartbeat of one loop. The default one is never asked.
#[derive(Clone, Default)]
pub struct Heartbeat {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    name: &'static str,
    times: Mutex<Times>,
    /// Wakes the loop when it is asked.
    asked: Notify,
    /// Wakes whoever waits for the answer.
    answered: Notify,
}

#[derive(Default)]
struct Times {
    /// When the loop was asked; `None` once it answered.
    asked: Option<Instant>,
    /// Counts as alive until then, whether it answers or not.
    alive_until: Option<Instant>,
}

impl Heartbeats {
    /// Adds a loop. It is asked from now on, so it must be running soon.
    pub fn register(&self, name: &'static str) -> Heartbeat {
        let heartbeat = Heartbeat { shared: Arc::new(Shared { name, ..Shared::default() }) };
        self.loops.lock().push(heartbeat.clone());
        heartbeat
    }

    /// Asks every loop. A loop that has not answered the previous question yet counts from that one.
    pub fn ask(&self, now: Instant) {
        for heartbeat in self.all() {
            heartbeat.ask(now);
        }
    }

    /// The loops that were asked more than [`ANSWER_LIMIT`] ago and have not answered, and have no longer step under way.
    pub fn overdue(&self, now: Instant) -> Vec<&'static str> {
        let overdue = |heartbeat: &Heartbeat| heartbeat.overdue_at().is_some_and(|overdue| overdue <= now);
        self.all().into_iter().filter(overdue).map(|heartbeat| heartbeat.shared.name).collect()
    }

    /// Asks every loop, waits for the answers for up to [`ANSWER_LIMIT`], and returns the loops that are overdue. Usually takes
    /// less than a millisecond. Cancel-safe.
    pub async fn check(&self) -> Vec<&'static str> {
        let now = Instant::now();
        self.ask(now);
        for heartbeat in self.all() {
            // A loop in a long step need not answer now.
            if heartbeat.overdue_at().is_some_and(|overdue| overdue <= now + ANSWER_LIMIT) {
                let _ = timeout_at(now + ANSWER_LIMIT, heartbeat.answered()).await;
            }
        }
        self.overdue(Instant::now())
    }

    /// Registers whether loops are overdue. Each request asks all of them, so that the next one shows who has not answered.
    pub fn register_metrics(&self, metrics: &Metrics) {
        let of = self.clone();
        let help = "Whether a main loop of the daemon has not answered for more than ten seconds.";
        metrics.register_gauge("hostlet_loop_overdue", help, move || {
            let now = Instant::now();
            let reading = |heartbeat: Heartbeat| {
                let is_overdue = heartbeat.overdue_at().is_some_and(|overdue| overdue <= now);
                heartbeat.ask(now);
                (vec![("loop", heartbeat.shared.name.to_owned())], is_overdue.into())
            };
            of.all().into_iter().map(reading).collect()
        });
    }

    fn all(&self) -> Vec<Heartbeat> {
        self.loops.lock().clone()
    }
}

impl Heartbeat {
    /// Waits until the loop is asked; returning is the answer. An arm of the loop's `select!`, near the top if that is biased.
    /// Cancel-safe: a question stays until it is answered.
    pub async fn asked(&self) {
        self.shared.asked.notified().await;
        self.beat();
    }

    /// Awaits something that may take any time, and answers meanwhile. Cancel-safe if `waiting` is.
    pub async fn while_waiting<T>(&self, waiting: impl Future<Output = T>) -> T {
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                // Cancel-safe as documented there.
                () = self.asked() => {}
                // Cancel-safe: pinned outside and polled on by reference.
                value = &mut waiting => return value,
            }
        }
    }

    /// Announces a step that takes up to this long and answers nothing, such as a request with its deadline. The next
    /// announcement replaces it.
    pub fn alive_for(&self, limit: Duration) {
        self.shared.times.lock().alive_until = Some(Instant::now() + limit);
        self.beat();
    }

    /// From now on the loop counts as alive, because it has not begun yet, until [`Heartbeat::resume`].
    pub fn suspend(&self) {
        self.alive_for(SUSPENDED);
    }

    /// The loop begins: it has to answer from now on.
    pub fn resume(&self) {
        self.shared.times.lock().alive_until = None;
        self.beat();
    }

    /// Answers a question, if there is one.
    fn beat(&self) {
        self.shared.times.lock().asked = None;
        self.shared.answered.notify_waiters();
    }

    fn ask(&self, now: Instant) {
        self.shared.times.lock().asked.get_or_insert(now);
        self.shared.asked.notify_one();
    }

    /// When the loop is overdue unless it answers; `None` without a question.
    fn overdue_at(&self) -> Option<Instant> {
        let times = self.shared.times.lock();
        times.asked.map(|asked| times.alive_until.map_or(asked, |until| until.max(asked)) + ANSWER_LIMIT)
    }

    async fn answered(&self) {
        loop {
            let answered = self.shared.answered.notified();
            tokio::pin!(answered);
            // Before looking, so that no answer is missed.
            answered.as_mut().enable();
            if self.shared.times.lock().asked.is_none() {
                return;
            }
            answered.await;
        }
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;

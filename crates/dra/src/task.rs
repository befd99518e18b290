//! The task: takes requests, records, calls drivers, answers. Calls survive whoever waits for them. The ledger decides.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hostlet_base::{Conflated, PodUid, error_chain, watching};
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::call::Answers;
use crate::drivers::{DraHandler, HealthTask, Services};
use crate::file::{ClaimsFile, RecordError};
use crate::health::HealthStore;
use crate::ledger::{Batches, Claim, ClaimKey, Operation};
use crate::metrics::{ClaimMetrics, in_use};
use crate::shared::{Request, Shared, State};
use crate::{CallError, ClaimRef, ClaimSource, Claims, Device, DriverService, PrepareError, ReleaseError};

/// Bound of pending requests, which are taken together and recorded with one write; senders wait for capacity.
const REQUESTS: usize = 64;

/// Dependencies of the claims.
pub struct ClaimsSettings {
    /// The daemon's directory, with the files of claims.
    pub root: PathBuf,
    /// This boot of the host, which tells whether devices are still prepared.
    pub boot: String,
    /// Where ResourceClaims are.
    pub source: Arc<dyn ClaimSource>,
}

/// Who waits for the claims of a pod.
enum Waiter {
    Prepare { added: Vec<ClaimKey>, reply: oneshot::Sender<Result<(), PrepareError>> },
    Release { reply: oneshot::Sender<Result<(), ReleaseError>> },
}

/// A request under way. Drivers are called once for it; whoever waits tries again.
struct Pending {
    pod: PodUid,
    waiter: Waiter,
    has_called: bool,
}

impl Pending {
    fn operation(&self) -> Operation {
        match &self.waiter {
            Waiter::Prepare { .. } => Operation::Prepare,
            Waiter::Release { .. } => Operation::Unprepare,
        }
    }
}

/// A driver's answer.
enum Answer {
    Prepared(Result<Answers<Vec<Device>>, CallError>),
    Unprepared(Result<Answers<()>, CallError>),
}

struct Ended {
    driver: String,
    claims: Vec<ClaimRef>,
    answer: Answer,
}

/// The task, which the app runs.
pub struct ClaimsTask {
    shared: Arc<Shared>,
    file: ClaimsFile,
    inbox: mpsc::Receiver<Request>,
    services: watch::Receiver<Services>,
    pending: Vec<Pending>,
    calls: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// How many claims there were.
    number: usize,
}

impl Claims {
    /// The tasks and their handle. Reads the files of earlier daemons, and blocks its thread for that.
    pub fn new(
        settings: ClaimsSettings,
        drivers: &DraHandler,
        metrics: &Metrics,
    ) -> (ClaimsTask, HealthTask, Self) {
        let news = Conflated::default();
        let health = HealthStore::read(&settings.root);
        let (task, claims) = Self::with_services(settings, drivers.services(), health.clone(), news);
        let read = claims.shared.clone();
        claims.shared.metrics.register(metrics, move || in_use(&read.state.lock().ledger));
        let health_task = drivers.health_task(health).for_claims(claims.clone());
        (task, health_task, claims)
    }

    pub(crate) fn with_services(
        settings: ClaimsSettings,
        services: watch::Receiver<Services>,
        health: HealthStore,
        news: Conflated<()>,
    ) -> (ClaimsTask, Self) {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let file = ClaimsFile::new(&settings.root, &settings.boot);
        let state = State { ledger: file.read(), is_recorded: true, ..State::default() };
        let number = state.ledger.claims().len();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            source: settings.source,
            services: services.clone(),
            health,
            metrics: ClaimMetrics::default(),
            news,
        });
        let (pending, calls) = (Vec::new(), FuturesUnordered::new());
        let task = ClaimsTask { shared: shared.clone(), file, inbox, services, pending, calls, number };
        (task, Self { requests, shared })
    }
}

impl ClaimsTask {
    /// Runs until cancelled. What is prepared stays prepared, as pods keep running.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut requests = Vec::with_capacity(REQUESTS);
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: an answer leaves the set only when it is returned.
                Some(ended) = self.calls.next() => self.ended(ended),
                // Cancel-safe: requests are received only when their number is returned.
                received = self.inbox.recv_many(&mut requests, REQUESTS) => {
                    if received == 0 {
                        // No handle is left; calls under way end by themselves.
                        return;
                    }
                    requests.drain(..).for_each(|request| self.take(request));
                }
                // Cancel-safe: the value is marked as seen only when this returns.
                () = watching::changed(&mut self.services) => self.notify_waiting(),
            }
            self.advance().await;
        }
    }

    fn take(&mut self, request: Request) {
        let (pod, waiter) = match request {
            Request::Prepare { pod, claims, reply } => {
                let mut state = self.shared.state.lock();
                match state.ledger.attach(&pod, &claims) {
                    Ok(added) => {
                        state.is_recorded &= added.is_empty();
                        let first = added.iter().filter_map(|key| state.ledger.claims().get(key));
                        for claim in first.filter(|claim| claim.pods.len() == 1) {
                            self.count_skips(claim, Operation::Prepare);
                        }
                        (pod, Waiter::Prepare { added, reply })
                    }
                    Err(error) => {
                        state.busy.insert(pod);
                        // The requester may have given up.
                        let _ = reply.send(Err(error.into()));
                        return;
                    }
                }
            }
            Request::Release { pod, reply } => (pod, Waiter::Release { reply }),
            Request::Forget { key, reply } => {
                let services = self.services.borrow().clone();
                let mut state = self.shared.state.lock();
                let users = state.ledger.get(&key.0, &key.1).map(|claim| claim.pods.clone());
                let forgotten = state.ledger.forget(&key, |driver| services.contains_key(driver));
                if let Ok(drivers) = &forgotten {
                    state.is_recorded = false;
                    // The pod that waits can end now.
                    users.iter().flatten().for_each(|pod| self.shared.news.push(pod, |()| ()));
                    let (namespace, name) = &key;
                    tracing::warn!(
                        namespace,
                        name,
                        drivers = drivers.join(", "),
                        "gave up unpreparing a claim, as requested"
                    );
                }
                let _ = reply.send(forgotten);
                return;
            }
        };
        self.pending.push(Pending { pod, waiter, has_called: false });
    }

    fn ended(&mut self, ended: Ended) {
        let Ended { driver, claims, answer } = ended;
        let mut state = self.shared.state.lock();
        match answer {
            Answer::Prepared(answer) => state.ledger.prepare_ended(&driver, &claims, answer),
            Answer::Unprepared(answer) => state.ledger.unprepare_ended(&driver, &claims, answer),
        }
        state.is_recorded = false;
    }

    /// Does what has become possible: records, calls, answers.
    async fn advance(&mut self) {
        self.detach();
        let recorded = self.record().await;
        self.call(recorded.is_ok());
        self.answer(&recorded);
    }

    /// Pods whose claims no driver prepares anymore are no longer among their users.
    fn detach(&self) {
        let mut state = self.shared.state.lock();
        for pending in &self.pending {
            match &pending.waiter {
                Waiter::Release { .. } => {
                    for (_, claim) in state.ledger.of_pod(&pending.pod) {
                        if claim.is_ended_by_last_pod() {
                            self.count_skips(claim, Operation::Unprepare);
                        }
                    }
                    if state.ledger.detach(&pending.pod) {
                        state.is_recorded = false;
                    }
                }
                Waiter::Prepare { .. } => {}
            }
        }
    }

    /// Counts the drivers that are not called about a claim.
    fn count_skips(&self, claim: &Claim, operation: Operation) {
        for driver in claim.skipping(operation) {
            self.shared.metrics.skipped(operation, driver);
        }
    }

    /// Writes the file if it is out of date.
    async fn record(&mut self) -> Result<(), RecordError> {
        let ledger = {
            let state = self.shared.state.lock();
            if state.is_recorded {
                return Ok(());
            }
            state.ledger.clone()
        };
        let written = self.file.write(&ledger).await;
        match &written {
            // Only this task changes it.
            Ok(()) => self.shared.state.lock().is_recorded = true,
            Err(error) => tracing::error!(error = error_chain(error), "cannot record the claims of pods"),
        }
        written
    }

    /// Calls drivers for requests that have not called any. A call that is not recorded would be forgotten by the next daemon.
    fn call(&mut self, is_recorded: bool) {
        let services = self.services.borrow().clone();
        for pending in self.pending.iter_mut().filter(|pending| !pending.has_called && is_recorded) {
            let operation = pending.operation();
            let batches = {
                let mut state = self.shared.state.lock();
                if operation == Operation::Unprepare && state.waits_for_prepare(&pending.pod) {
                    continue;
                }
                state.ledger.begin(&pending.pod, operation, |driver| services.contains_key(driver))
            };
            pending.has_called = true;
            self.calls.extend(calls(batches, operation, &services));
        }
    }

    /// Answers requests whose outcome is known and recorded.
    fn answer(&mut self, recorded: &Result<(), RecordError>) {
        let problem = recorded.as_ref().err().map(|error| error_chain(error));
        let mut state = self.shared.state.lock();
        let mut left = Vec::new();
        for pending in self.pending.drain(..) {
            let outcome = state.ledger.outcome(&pending.pod, pending.operation());
            let is_over = pending.has_called || recorded.is_err();
            let Some(outcome) = outcome.filter(|_| is_over) else {
                left.push(pending);
                continue;
            };
            let Pending { pod, waiter, has_called } = pending;
            match waiter {
                Waiter::Prepare { added, reply } => {
                    if !has_called {
                        state.ledger.revert(&pod, &added);
                    }
                    let outcome = outcome.map_err(|error| PrepareError::Driver(error.to_string()));
                    let problem = problem.clone().map(PrepareError::Record);
                    let _ = reply.send(problem.map_or(outcome, Err));
                }
                Waiter::Release { reply } => {
                    if outcome.is_err() {
                        state.note_missing(&pod, &self.services.borrow());
                    } else {
                        state.forget(&pod);
                    }
                    let outcome = outcome.map_err(|error| ReleaseError::Driver(error.to_string()));
                    let problem = problem.clone().map(ReleaseError::Record);
                    let _ = reply.send(problem.map_or(outcome, Err));
                }
            }
        }
        self.pending = left;
        // A claim that was unprepared may be the one that they wait for; they are few.
        let number = state.ledger.claims().len();
        if number < std::mem::replace(&mut self.number, number) {
            for pod in std::mem::take(&mut state.busy) {
                self.shared.news.push(&pod, |()| ());
            }
        }
    }

    /// Wakes the pods that wait for a driver which is here now.
    fn notify_waiting(&self) {
        let services = self.services.borrow().clone();
        let mut state = self.shared.state.lock();
        state.waiting.retain(|pod, drivers| {
            let is_here = drivers.iter().any(|driver| services.contains_key(driver));
            if is_here {
                self.shared.news.push(pod, |()| ());
            }
            !is_here
        });
    }
}

/// The calls to these drivers, which are registered.
fn calls(
    batches: Batches,
    operation: Operation,
    services: &Services,
) -> impl Iterator<Item = BoxFuture<'static, Ended>> {
    let known = batches.into_iter().filter_map(|(driver, claims)| {
        let service = services.get(&driver)?.clone();
        Some((driver, claims, service))
    });
    known.map(move |(driver, claims, service)| -> BoxFuture<'static, Ended> {
        Box::pin(call(driver, claims, service, operation))
    })
}

async fn call(
    driver: String,
    claims: Vec<ClaimRef>,
    service: Arc<dyn DriverService>,
    operation: Operation,
) -> Ended {
    let answer = match operation {
        Operation::Prepare => Answer::Prepared(service.prepare(&claims).await),
        Operation::Unprepare => Answer::Unprepared(service.unprepare(&claims).await),
    };
    Ended { driver, claims, answer }
}

//! What to do about each registration socket: whom to ask, whom to register, when to try again. Pure: takes the time, does no I/O
//! except that handlers validate claims.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_proto::registration::RegistrationStatus;
use jiff::Timestamp;
use tokio::time::Instant;

use super::client::{CallError, Statement};
use super::failure::{Failure, FailureKind};
use super::handler::{Handlers, InstanceId, PluginEvent, PluginInstance};
use super::info::{InfoError, PluginClaim};
use super::scan::{Scan, SocketIdentity};
use super::view::{PluginState, PluginView};

/// The back-off of a socket whose registration failed, as upstream (`exponentialbackoff`): doubling between these, with jitter.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(122);
const JITTER: f64 = 0.1;

/// After this number of attempts a plugin that may be starting counts as failing, after about two seconds.
const PATIENCE: u32 = 3;

/// Maximum number of attempts at the same time: hung plugins must not delay others by much, and a call has a deadline.
const MAX_UNDER_WAY: usize = 16;

/// An attempt to register the plugin at a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempt {
    /// Unique in this run.
    pub(super) number: u64,
    pub(super) socket: PathBuf,
}

/// The present time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) now: Instant,
    pub(super) wall: Timestamp,
}

impl Clocks {
    /// The wait after another failure that follows `failures` of them.
    fn later(self, failures: u32, chance: f64) -> Phase {
        let delay = delay(failures, chance);
        Phase::Waiting { due: self.now + delay, at: self.wall.checked_add(delay).unwrap_or(self.wall) }
    }
}

/// What the task has to do.
#[derive(Debug)]
pub(super) enum Effect {
    /// Ask the plugin what it is.
    Ask(Attempt, SocketIdentity),
    /// Notify the plugin of the outcome.
    Notify(Attempt, RegistrationStatus),
    /// Stop the attempt of this number.
    Cancel(u64),
    /// Report a change to the handler of this type, and as an event and a log line.
    Changed(String, PluginEvent),
    /// Count a failed attempt.
    Failed(FailureKind),
    /// Log and record as an event that a plugin cannot be registered. Once per socket and error.
    Report { socket: PathBuf, name: Option<String>, kind: FailureKind, error: String },
}

/// The state of a registration.
#[derive(Debug)]
enum Phase {
    /// The next attempt is due then; `at` is the same time by the wall clock.
    Waiting { due: Instant, at: Timestamp },
    /// The plugin is being asked what it is.
    Asking { attempt: u64 },
    /// The plugin is being notified of the outcome.
    Notifying { attempt: u64, verdict: Verdict },
    /// It is registered, until its socket is removed or replaced.
    Registered { plugin_type: String, instance: Arc<PluginInstance> },
    /// Its type is not supported, and it was notified. Nothing changes until its socket does.
    Unsupported,
}

/// The outcome of an attempt.
#[derive(Debug)]
enum Verdict {
    Accepted,
    Rejected(Failure),
}

#[derive(Debug)]
struct Socket {
    id: InstanceId,
    identity: SocketIdentity,
    phase: Phase,
    /// What the plugin last claimed to be.
    claim: Option<PluginClaim>,
    /// Failed attempts in a row.
    failures: u32,
    last_error: Option<String>,
    /// The error that was logged last.
    reported: Option<String>,
    seen: Timestamp,
}

impl Socket {
    /// The attempt that is under way.
    fn attempt(&self) -> Option<u64> {
        match &self.phase {
            Phase::Asking { attempt } | Phase::Notifying { attempt, .. } => Some(*attempt),
            Phase::Waiting { .. } | Phase::Registered { .. } | Phase::Unsupported => None,
        }
    }

    /// What follows from its removal.
    fn removed(self) -> Option<Effect> {
        match self.phase {
            Phase::Asking { attempt } | Phase::Notifying { attempt, .. } => Some(Effect::Cancel(attempt)),
            Phase::Registered { plugin_type, instance } => {
                Some(Effect::Changed(plugin_type, PluginEvent::Deregistered(instance)))
            }
            Phase::Waiting { .. } | Phase::Unsupported => None,
        }
    }

    /// Notes a failed attempt, after which `phase` follows.
    fn fail(&mut self, path: &Path, failure: &Failure, phase: Phase) -> Vec<Effect> {
        self.phase = phase;
        self.failures = self.failures.saturating_add(1);
        let (kind, error) = (failure.kind(), error_chain(failure));
        let is_due = self.failures >= PATIENCE || !failure.may_be_early();
        let mut effects = vec![Effect::Failed(kind)];
        if is_due && self.reported.as_ref() != Some(&error) {
            self.reported = Some(error.clone());
            let name = self.claim.as_ref().map(|claim| claim.name.clone());
            effects.push(Effect::Report { socket: path.to_owned(), name, kind, error: error.clone() });
        }
        self.last_error = Some(error);
        effects
    }
}

/// The registrations of all sockets in the registry.
pub(super) struct Registrations {
    handlers: Handlers,
    sockets: BTreeMap<PathBuf, Socket>,
    last_id: u64,
    last_attempt: u64,
}

impl Registrations {
    pub(super) fn new(handlers: Handlers) -> Self {
        Self { handlers, sockets: BTreeMap::new(), last_id: 0, last_attempt: 0 }
    }

    /// Applies what a scan found. A socket that was replaced is another one.
    pub(super) fn listed(&mut self, scan: &Scan, Clocks { now, wall }: Clocks) -> Vec<Effect> {
        let is_removed = |(path, socket): &(&PathBuf, &Socket)| match scan.sockets.get(*path) {
            Some(identity) => *identity != socket.identity,
            None => !scan.may_have(path),
        };
        let paths: Vec<PathBuf> =
            self.sockets.iter().filter(is_removed).map(|(path, _)| path.clone()).collect();
        let removed = paths.iter().filter_map(|path| self.sockets.remove(path));
        let effects = removed.filter_map(Socket::removed).collect();
        let mut fresh: Vec<(SocketIdentity, &PathBuf)> = scan
            .sockets
            .iter()
            .filter(|(path, _)| !self.sockets.contains_key(*path))
            .map(|(path, identity)| (*identity, path))
            .collect();
        fresh.sort();
        for (identity, path) in fresh {
            self.last_id += 1;
            let socket = Socket {
                id: InstanceId(self.last_id),
                identity,
                phase: Phase::Waiting { due: now, at: wall },
                claim: None,
                failures: 0,
                last_error: None,
                reported: None,
                seen: wall,
            };
            self.sockets.insert(path.clone(), socket);
        }
        effects
    }

    /// Makes every waiting attempt due, also of plugins that are not supported.
    pub(super) fn retry_all(&mut self, Clocks { now, wall }: Clocks) {
        for socket in self.sockets.values_mut() {
            match &socket.phase {
                Phase::Waiting { .. } | Phase::Unsupported => {
                    socket.phase = Phase::Waiting { due: now, at: wall };
                }
                Phase::Asking { .. } | Phase::Notifying { .. } | Phase::Registered { .. } => {}
            }
        }
    }

    /// Begins the attempts that are due, the oldest first.
    pub(super) fn begin_due(&mut self, now: Instant) -> Vec<Effect> {
        let free = MAX_UNDER_WAY.saturating_sub(self.under_way());
        let mut due: Vec<(Instant, PathBuf)> = self
            .sockets
            .iter()
            .filter_map(|(path, socket)| match &socket.phase {
                Phase::Waiting { due, at: _ } if *due <= now => Some((*due, path.clone())),
                Phase::Waiting { .. }
                | Phase::Asking { .. }
                | Phase::Notifying { .. }
                | Phase::Registered { .. }
                | Phase::Unsupported => None,
            })
            .collect();
        due.sort();
        due.truncate(free);
        let mut effects = Vec::new();
        for (_, path) in due {
            if let Some(socket) = self.sockets.get_mut(&path) {
                self.last_attempt += 1;
                socket.phase = Phase::Asking { attempt: self.last_attempt };
                let attempt = Attempt { number: self.last_attempt, socket: path };
                effects.push(Effect::Ask(attempt, socket.identity));
            }
        }
        effects
    }

    /// When the next attempt is due, if one can begin.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if self.under_way() >= MAX_UNDER_WAY {
            return None;
        }
        let due = self.sockets.values().filter_map(|socket| match &socket.phase {
            Phase::Waiting { due, at: _ } => Some(*due),
            Phase::Asking { .. }
            | Phase::Notifying { .. }
            | Phase::Registered { .. }
            | Phase::Unsupported => None,
        });
        due.min()
    }

    fn under_way(&self) -> usize {
        self.sockets.values().filter(|socket| socket.attempt().is_some()).count()
    }

    /// Applies what a plugin said about itself. An answer to an attempt that was cancelled has no effect. `chance` is from 0 to 1.
    pub(super) fn answered(
        &mut self,
        attempt: Attempt,
        answer: Result<Statement, CallError>,
        clocks: Clocks,
        chance: f64,
    ) -> Vec<Effect> {
        let Some(socket) = self.sockets.get_mut(&attempt.socket) else { return Vec::new() };
        match &socket.phase {
            Phase::Asking { attempt: current } if *current == attempt.number => {}
            Phase::Asking { .. }
            | Phase::Waiting { .. }
            | Phase::Notifying { .. }
            | Phase::Registered { .. }
            | Phase::Unsupported => return Vec::new(),
        }
        let Statement { claim, endpoint } = match answer {
            Ok(statement) => statement,
            Err(error) => {
                let phase = clocks.later(socket.failures, chance);
                return socket.fail(&attempt.socket, &error.into(), phase);
            }
        };
        let validated = claim.map_err(Failure::from).and_then(|claim| {
            let claim = socket.claim.insert(claim);
            validate(&self.handlers, claim, endpoint, &attempt.socket)
        });
        let (status, verdict) = match validated {
            Ok(()) => {
                (RegistrationStatus { plugin_registered: true, error: String::new() }, Verdict::Accepted)
            }
            Err(failure) => {
                let error = failure.to_string();
                (RegistrationStatus { plugin_registered: false, error }, Verdict::Rejected(failure))
            }
        };
        socket.phase = Phase::Notifying { attempt: attempt.number, verdict };
        vec![Effect::Notify(attempt, status)]
    }

    /// Records whether the outcome was delivered to the plugin. Only then is the plugin registered: without it, the plugin does not
    /// expect calls. `chance` is from 0 to 1.
    pub(super) fn notified(
        &mut self,
        attempt: Attempt,
        delivery: Result<(), CallError>,
        clocks: Clocks,
        chance: f64,
    ) -> Vec<Effect> {
        let Some(socket) = self.sockets.get_mut(&attempt.socket) else { return Vec::new() };
        let waiting = clocks.later(socket.failures, chance);
        let verdict = match std::mem::replace(&mut socket.phase, waiting) {
            Phase::Notifying { attempt: current, verdict } if current == attempt.number => verdict,
            other => {
                socket.phase = other;
                return Vec::new();
            }
        };
        let waiting = clocks.later(socket.failures, chance);
        match (verdict, delivery, socket.claim.clone()) {
            (Verdict::Accepted, Ok(()), Some(claim)) => {
                let PluginClaim { plugin_type, name, endpoint, versions } = claim;
                let (id, since) = (socket.id, clocks.wall);
                let instance = PluginInstance { id, name, endpoint, versions, socket: attempt.socket, since };
                let instance = Arc::new(instance);
                (socket.failures, socket.last_error, socket.reported) = (0, None, None);
                socket.phase =
                    Phase::Registered { plugin_type: plugin_type.clone(), instance: instance.clone() };
                vec![Effect::Changed(plugin_type, PluginEvent::Registered(instance))]
            }
            // Only a claim is accepted.
            (Verdict::Accepted, Ok(()), None) => Vec::new(),
            (Verdict::Accepted, Err(error), _) => socket.fail(&attempt.socket, &error.into(), waiting),
            (Verdict::Rejected(failure), delivery, claim) => {
                let phase = match (failure.kind(), delivery) {
                    (FailureKind::Unsupported, Ok(())) => Phase::Unsupported,
                    (FailureKind::Unsupported, Err(_)) => waiting,
                    (FailureKind::Unreachable | FailureKind::Rejected, _) => waiting,
                };
                let mut effects = socket.fail(&attempt.socket, &failure, phase);
                if let (Failure::Rejected(_), Some(claim)) = (&failure, claim) {
                    effects
                        .push(Effect::Changed(claim.plugin_type, PluginEvent::Rejected { name: claim.name }));
                }
                effects
            }
        }
    }

    /// All sockets by path, as `hostlet plugins` shows them.
    pub(super) fn view(&self) -> Vec<PluginView> {
        let views = self.sockets.iter().map(|(path, socket)| {
            let (state, next_retry) = match &socket.phase {
                Phase::Waiting { due: _, at } if socket.failures > 0 => (PluginState::Failing, Some(*at)),
                Phase::Asking { .. } | Phase::Notifying { .. } if socket.failures > 0 => {
                    (PluginState::Failing, None)
                }
                Phase::Waiting { .. } | Phase::Asking { .. } | Phase::Notifying { .. } => {
                    (PluginState::Registering, None)
                }
                Phase::Registered { instance, .. } if self.serves(socket, instance) => {
                    (PluginState::Serving, None)
                }
                Phase::Registered { .. } => (PluginState::Standby, None),
                Phase::Unsupported => (PluginState::Unsupported, None),
            };
            let since = match &socket.phase {
                Phase::Registered { instance, .. } => instance.since,
                Phase::Waiting { .. }
                | Phase::Asking { .. }
                | Phase::Notifying { .. }
                | Phase::Unsupported => socket.seen,
            };
            let claim = socket.claim.as_ref();
            PluginView {
                name: claim.map(|claim| claim.name.clone()),
                plugin_type: claim.map(|claim| claim.plugin_type.clone()),
                state,
                versions: claim.map(|claim| claim.versions.clone()).unwrap_or_default(),
                socket: path.display().to_string(),
                endpoint: claim.map(|claim| claim.endpoint.display().to_string()),
                since,
                failures: socket.failures,
                last_error: socket.last_error.clone(),
                next_retry,
                details: None,
            }
        });
        views.collect()
    }

    /// Whether no newer instance of the same plugin is registered.
    fn serves(&self, socket: &Socket, instance: &PluginInstance) -> bool {
        let plugin_type = socket.claim.as_ref().map(|claim| &claim.plugin_type);
        let is_newer = |other: &Socket| match &other.phase {
            Phase::Registered { plugin_type: of_other, instance: newer } => {
                Some(of_other) == plugin_type && newer.name == instance.name && newer.id > instance.id
            }
            Phase::Waiting { .. } | Phase::Asking { .. } | Phase::Notifying { .. } | Phase::Unsupported => {
                false
            }
        };
        !self.sockets.values().any(is_newer)
    }
}

/// Whether a claim is accepted.
fn validate(
    handlers: &Handlers,
    claim: &PluginClaim,
    endpoint: Result<(), InfoError>,
    socket: &Path,
) -> Result<(), Failure> {
    let no_handler = || Failure::NoHandler {
        plugin_type: claim.plugin_type.clone(),
        socket: socket.to_owned(),
        types: handlers.types(),
    };
    let handler = handlers.get(&claim.plugin_type).ok_or_else(no_handler)?;
    match endpoint {
        Err(InfoError::NoEndpoint { .. }) if handler.may_listen_later() => {}
        endpoint => endpoint?,
    }
    Ok(handler.validate(&claim.name, &claim.endpoint, &claim.versions)?)
}

/// The delay after another failure that follows `failures` of them.
fn delay(failures: u32, chance: f64) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    doubled.min(MAX_DELAY).mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0))
}

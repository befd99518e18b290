//! The task that keeps the registrations current: scans the registry on changes and periodically, and performs the calls. Thin: the
//! files are in [`scan`], the calls in [`Registrar`], the decisions in [`Registrations`].

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortHandle, BoxFuture, FutureExt, abortable};
use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt};
use hostlet_base::node::NodeEvents;
use hostlet_base::{Rescan, WallClock, sleep_until};
use hostlet_host::{Changes, Watch, file_work};
use hostlet_telemetry::Metrics;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, info, warn};

use super::client::{Answer, CallError, Conversation, GrpcRegistrar, Registrar};
use super::connection::reachability;
use super::counts::Counts;
use super::failure::FailureKind;
use super::handler::{Handlers, InstanceId, PluginEvent, PluginInstance};
use super::list::PluginList;
use super::node_events::{deregistered_event, not_registered_event, registered_event};
use super::registrations::{Attempt, Clocks, Effect, Registrations};
use super::scan::{Scan, scan, subdirectories};
use super::view::PluginView;

/// Minimum pause between scans: a plugin that creates and removes its socket in a loop costs no more.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// How often the registry is scanned while it is watched: events can be lost.
const WATCHED_INTERVAL: Duration = Duration::from_secs(60);

/// The same while it cannot be watched.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(2);

/// Where plugins register, and who is interested.
pub struct PluginSettings {
    /// The directory of registration sockets; must be absolute.
    pub registry: PathBuf,
    /// `/proc`, outside tests.
    pub proc: PathBuf,
    /// The handlers by type.
    pub handlers: Handlers,
    /// Receives events about the node.
    pub events: NodeEvents,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
    /// Requests to scan and to try everything again now.
    pub rescan: Rescan,
}

/// The task of plugin registration.
pub struct Plugins {
    settings: PluginSettings,
    registrar: Arc<dyn Registrar>,
    registrations: Registrations,
    calls: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The calls in progress by the number of their attempt.
    aborts: HashMap<u64, AbortHandle>,
    /// Connections of attempts whose plugins have answered.
    conversations: HashMap<u64, Box<dyn Conversation>>,
    /// Whether the registered plugins can be reached, each time that changes.
    connections: SelectAll<BoxStream<'static, (String, PluginEvent)>>,
    /// Dropping one ends the connection of that instance.
    followed: HashMap<InstanceId, DropGuard>,
    view: watch::Sender<Arc<[PluginView]>>,
    counts: Arc<Counts>,
    chance: StdRng,
}

/// A finished call.
enum Done {
    Asked(Attempt, Result<Answer, CallError>),
    Notified(Attempt, Result<(), CallError>),
    Aborted,
}

impl Plugins {
    /// The task, which registers the plugins of `settings.registry` once it runs.
    pub fn new(settings: PluginSettings) -> Self {
        let registrar = GrpcRegistrar { registry: settings.registry.clone(), proc: settings.proc.clone() };
        Self::with_registrar(settings, Arc::new(registrar), StdRng::from_os_rng())
    }

    /// The same with other calls.
    pub(super) fn with_registrar(
        settings: PluginSettings,
        registrar: Arc<dyn Registrar>,
        chance: StdRng,
    ) -> Self {
        Self {
            registrations: Registrations::new(settings.handlers.clone()),
            settings,
            registrar,
            calls: FuturesUnordered::new(),
            aborts: HashMap::new(),
            conversations: HashMap::new(),
            connections: SelectAll::new(),
            followed: HashMap::new(),
            view: watch::Sender::new(Arc::new([])),
            counts: Arc::default(),
            chance,
        }
    }

    /// The plugins as they are at any time.
    pub fn list(&self) -> PluginList {
        PluginList::new(self.view.subscribe(), self.settings.handlers.clone())
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.counts.register(metrics, self.view.subscribe());
    }

    /// Registers plugins until cancelled. They stay registered, as far as they and their handlers know: the next daemon registers
    /// them again.
    pub async fn run(mut self, cancel: CancellationToken) {
        let changed = Arc::new(Changes::default());
        let mut disk = Some(Disk::new(&self.settings.registry, &changed));
        let mut scanning: Option<BoxFuture<'static, Result<(Disk, Scan), JoinError>>> = None;
        let mut scanned_at: Option<Instant> = None;
        let mut next_scan = Instant::now();
        loop {
            let now = Instant::now();
            if scanning.is_none() && next_scan <= now {
                let disk = disk.take().unwrap_or_else(|| Disk::new(&self.settings.registry, &changed));
                scanning = Some(file_work(move || disk.scan()).boxed());
            }
            let effects = self.registrations.begin_due(now);
            self.perform(effects);
            self.publish();
            let is_scanning = scanning.is_some();
            tokio::select! {
                biased;
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: the scan stays in its variable.
                result = finished(&mut scanning) => {
                    scanning = None;
                    scanned_at = Some(Instant::now());
                    let interval = match result {
                        Ok((returned, found)) => {
                            let interval = returned.interval();
                            disk = Some(returned);
                            self.listed(&found);
                            interval
                        }
                        Err(error) => {
                            let path = self.settings.registry.display();
                            error!(%path, %error, "scanning for plugins panicked; starting over");
                            UNWATCHED_INTERVAL
                        }
                    };
                    next_scan = Instant::now() + interval;
                }
                // Cancel-safe: a finished call leaves the set only when returned.
                Some(done) = self.calls.next() => self.done(done),
                // Cancel-safe: a change leaves the streams only when returned.
                Some((plugin_type, event)) = self.connections.next() => self.changed(&plugin_type, event),
                // Cancel-safe: an unread change stays.
                () = changed.next(), if !is_scanning => {
                    let earliest = scanned_at.map_or(now, |at| at + MIN_PAUSE);
                    next_scan = next_scan.min(earliest.max(now));
                }
                // Cancel-safe as documented there.
                () = self.settings.rescan.requested() => {
                    next_scan = Instant::now();
                    self.registrations.retry_all(self.clocks());
                }
                // Cancel-safe, both: a pause takes nothing.
                () = sleep_until((!is_scanning).then_some(next_scan)) => {}
                () = sleep_until(self.registrations.next_due()) => {}
            }
        }
    }

    fn clocks(&self) -> Clocks {
        Clocks { now: Instant::now(), wall: self.settings.clock.now() }
    }

    fn listed(&mut self, found: &Scan) {
        let clocks = self.clocks();
        let effects = self.registrations.listed(found, clocks);
        self.perform(effects);
    }

    fn done(&mut self, done: Done) {
        let (clocks, chance) = (self.clocks(), self.chance.random::<f64>());
        match done {
            Done::Asked(attempt, answer) => {
                let number = attempt.number;
                self.aborts.remove(&number);
                let answer = answer.map(|Answer { statement, conversation }| {
                    self.conversations.insert(number, conversation);
                    statement
                });
                let effects = self.registrations.answered(attempt, answer, clocks, chance);
                self.perform(effects);
                // Left only if the plugin is not to be notified.
                self.conversations.remove(&number);
            }
            Done::Notified(attempt, delivery) => {
                self.aborts.remove(&attempt.number);
                let effects = self.registrations.notified(attempt, delivery, clocks, chance);
                self.perform(effects);
            }
            Done::Aborted => {}
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(attempt, identity) => {
                    let registrar = self.registrar.clone();
                    self.call(attempt.number, async move {
                        let answer = registrar.ask(&attempt.socket, identity).await;
                        Done::Asked(attempt, answer)
                    });
                }
                Effect::Notify(attempt, status) => {
                    if let Some(conversation) = self.conversations.remove(&attempt.number) {
                        self.call(attempt.number, async move {
                            let delivery = conversation.notify(status).await;
                            Done::Notified(attempt, delivery)
                        });
                    }
                }
                Effect::Cancel(number) => {
                    self.conversations.remove(&number);
                    if let Some(abort) = self.aborts.remove(&number) {
                        abort.abort();
                    }
                }
                Effect::Changed(plugin_type, event) => self.changed(&plugin_type, event),
                Effect::Failed(kind) => self.counts.failed(kind),
                Effect::Report { socket, name, kind, error } => {
                    let plugin = name.as_deref().unwrap_or_default();
                    match kind {
                        FailureKind::Unreachable | FailureKind::Rejected => {
                            warn!(socket = %socket.display(), plugin, error, "cannot register a plugin");
                        }
                        FailureKind::Unsupported => {
                            info!(socket = %socket.display(), plugin, error, "a plugin is not supported");
                        }
                    }
                    (self.settings.events)(not_registered_event(name.as_deref(), &socket, &error));
                }
            }
        }
    }

    fn call(&mut self, number: u64, call: impl Future<Output = Done> + Send + 'static) {
        let (call, abort) = abortable(call);
        self.aborts.insert(number, abort);
        self.calls.push(call.map(|done| done.unwrap_or(Done::Aborted)).boxed());
    }

    /// Follows the connection to an instance until it is deregistered.
    fn follow(&mut self, plugin_type: &str, instance: Arc<PluginInstance>) {
        let removed = CancellationToken::new();
        self.followed.insert(instance.id, removed.clone().drop_guard());
        let plugin_type = plugin_type.to_owned();
        let changes = reachability(&instance.endpoint).map(move |is_reachable| {
            let event = match is_reachable {
                true => PluginEvent::Connected(instance.clone()),
                false => PluginEvent::Disconnected(instance.clone()),
            };
            (plugin_type.clone(), event)
        });
        self.connections.push(changes.take_until(removed.cancelled_owned()).boxed());
    }

    fn changed(&mut self, plugin_type: &str, event: PluginEvent) {
        let event_of_node = match &event {
            // The failed attempt is reported, once.
            PluginEvent::Rejected { .. } => None,
            PluginEvent::Registered(instance) => {
                let (name, endpoint) = (&instance.name, instance.endpoint.display());
                info!(name, plugin_type, %endpoint, versions = instance.versions.join(" "), "registered a plugin");
                self.counts.registered();
                Some(registered_event(plugin_type, name, &instance.socket))
            }
            PluginEvent::Deregistered(instance) => {
                info!(name = instance.name, plugin_type, "a plugin is no longer registered");
                self.followed.remove(&instance.id);
                Some(deregistered_event(plugin_type, &instance.name, &instance.socket))
            }
            PluginEvent::Disconnected(instance) => {
                let (name, endpoint) = (&instance.name, instance.endpoint.display());
                warn!(name, plugin_type, %endpoint, "nothing answers at the socket of a registered plugin");
                None
            }
            PluginEvent::Connected(instance) => {
                let (name, endpoint) = (&instance.name, instance.endpoint.display());
                info!(name, plugin_type, %endpoint, "a registered plugin answers again");
                None
            }
        };
        if let Some(event) = event_of_node {
            (self.settings.events)(event);
        }
        if let Some(handler) = self.settings.handlers.get(plugin_type) {
            let follows = handler.follows_connections();
            handler.changed(event.clone());
            if let PluginEvent::Registered(instance) = event
                && follows
            {
                self.follow(plugin_type, instance);
            }
        }
    }

    fn publish(&self) {
        let view = self.registrations.view();
        self.view.send_if_modified(|shown| {
            let is_new = **shown != *view;
            if is_new {
                *shown = view.into();
            }
            is_new
        });
    }
}

/// Waits for the scan in progress; forever without one. Cancel-safe: the scan stays where it is.
async fn finished<T>(scanning: &mut Option<BoxFuture<'static, T>>) -> T {
    match scanning {
        Some(scan) => scan.await,
        None => std::future::pending().await,
    }
}

/// The state of scanning, moved to a blocking thread and back.
struct Disk {
    registry: PathBuf,
    watch: Watch,
    changed: Arc<Changes>,
    /// What was not completely read last, so that it is logged once.
    incomplete: BTreeMap<PathBuf, String>,
}

impl Disk {
    fn new(registry: &Path, changed: &Arc<Changes>) -> Self {
        let watch = Watch::new(registry, "plugins", changed.clone()).with_directories(subdirectories);
        Self { registry: registry.to_owned(), watch, changed: changed.clone(), incomplete: BTreeMap::new() }
    }

    /// Sets up the watch before reading, so that no change is missed.
    fn scan(mut self) -> (Self, Scan) {
        self.watch.renew();
        // Nobody writes into sockets, so nothing is to be waited for.
        self.changed.forget_writing();
        let found = scan(&self.registry);
        if found.incomplete != self.incomplete {
            for (directory, why) in &found.incomplete {
                warn!(directory = %directory.display(), error = why,
                    "cannot look for plugins; those that are registered stay so");
            }
            self.incomplete.clone_from(&found.incomplete);
        }
        (self, found)
    }

    fn interval(&self) -> Duration {
        if self.watch.is_set() { WATCHED_INTERVAL } else { UNWATCHED_INTERVAL }
    }
}

//! Decisions about registration sockets: single ones, and any history of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use tokio::time::Instant;

use super::client::{CallError, Statement};
use super::handler::{Handlers, InstanceId, PluginEvent, PluginHandler};
use super::info::{InfoError, PluginClaim};
use super::registrations::{Attempt, Clocks, Effect, Registrations};
use super::scan::{Scan, SocketIdentity};
use super::testing::Recorder;
use super::view::{PluginState, PluginView};

/// The longest wait until another attempt, with jitter.
const LONGEST: Duration = Duration::from_secs(135);

type Answer = Result<Statement, CallError>;

fn claim(plugin_type: &str, name: &str) -> PluginClaim {
    PluginClaim {
        plugin_type: plugin_type.to_owned(),
        name: name.to_owned(),
        endpoint: format!("/plugins/{name}.sock").into(),
        versions: vec!["1.0.0".to_owned()],
    }
}

fn of_type(plugin_type: &str, name: &str) -> Answer {
    Ok(Statement { claim: Ok(claim(plugin_type, name)), endpoint: Ok(()) })
}

fn good(name: &str) -> Answer {
    of_type("DRAPlugin", name)
}

fn invalid(error: InfoError) -> Answer {
    Ok(Statement { claim: Err(error), endpoint: Ok(()) })
}

fn dead() -> CallError {
    CallError::Connect("Connection refused".to_owned())
}

/// Registrations with a disk and a clock, which check every effect.
struct Node {
    registrations: Registrations,
    start: Instant,
    now: Instant,
    /// The sockets that exist.
    disk: BTreeMap<PathBuf, SocketIdentity>,
    /// Sockets that the last scan left.
    seen: BTreeMap<PathBuf, SocketIdentity>,
    created: i64,
    asking: BTreeMap<u64, Attempt>,
    notifying: BTreeMap<u64, (Attempt, bool, String)>,
    /// The registered instances by socket.
    registered: BTreeMap<PathBuf, InstanceId>,
    ids: BTreeSet<InstanceId>,
    reports: Vec<(PathBuf, String)>,
    /// Names of plugins that were rejected.
    rejected: Vec<String>,
}

impl Node {
    fn new() -> Self {
        let handler: Arc<dyn PluginHandler> = Arc::new(Recorder::default());
        Self {
            registrations: Registrations::new(Handlers::new([handler])),
            start: Instant::now(),
            now: Instant::now(),
            disk: BTreeMap::new(),
            seen: BTreeMap::new(),
            created: 0,
            asking: BTreeMap::new(),
            notifying: BTreeMap::new(),
            registered: BTreeMap::new(),
            ids: BTreeSet::new(),
            reports: Vec::new(),
            rejected: Vec::new(),
        }
    }

    fn clocks(&self) -> Clocks {
        let since = self.now.duration_since(self.start);
        Clocks { now: self.now, wall: Timestamp::UNIX_EPOCH + since }
    }

    fn path(number: usize) -> PathBuf {
        format!("/registry/{}/{number}.sock", if number.is_multiple_of(2) { "even" } else { "odd" }).into()
    }

    /// Creates or replaces a socket.
    fn create(&mut self, number: usize) {
        self.created += 1;
        let identity = SocketIdentity { created: (self.created, 0), device: 1, inode: 7 };
        self.disk.insert(Self::path(number), identity);
    }

    fn scan(&mut self, incomplete: Option<&str>) {
        let hidden = |path: &Path| incomplete.is_some_and(|directory| path.starts_with(directory));
        let sockets = self.disk.iter().filter(|(path, _)| !hidden(path));
        let scan = Scan {
            sockets: sockets.map(|(path, identity)| (path.clone(), *identity)).collect(),
            incomplete: incomplete.into_iter().map(|path| (path.into(), "broken".to_owned())).collect(),
        };
        self.seen.retain(|path, _| hidden(path));
        self.seen.extend(scan.sockets.clone());
        let effects = self.registrations.listed(&scan, self.clocks());
        self.apply(effects);
    }

    fn begin(&mut self) {
        let effects = self.registrations.begin_due(self.now);
        self.apply(effects);
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(attempt, identity) => {
                    assert_eq!(self.seen.get(&attempt.socket), Some(&identity));
                    assert!(!self.registered.contains_key(&attempt.socket), "{attempt:?} is registered");
                    let under_way = self.asking.values().chain(self.notifying.values().map(|(a, ..)| a));
                    assert!(under_way.clone().all(|other| other.socket != attempt.socket), "two at once");
                    assert!(under_way.count() < 16, "too many at once");
                    assert!(self.asking.insert(attempt.number, attempt).is_none());
                }
                Effect::Notify(attempt, status) => {
                    assert_eq!(status.plugin_registered, status.error.is_empty());
                    let outcome = (attempt.clone(), status.plugin_registered, status.error);
                    assert!(self.notifying.insert(attempt.number, outcome).is_none());
                }
                Effect::Cancel(number) => {
                    assert!(self.asking.remove(&number).is_some() | self.notifying.remove(&number).is_some());
                }
                Effect::Changed(plugin_type, PluginEvent::Registered(instance)) => {
                    assert_eq!(plugin_type, "DRAPlugin");
                    assert!(self.ids.insert(instance.id), "{} twice", instance.id);
                    assert!(self.registered.insert(instance.socket.clone(), instance.id).is_none());
                }
                Effect::Changed(_, PluginEvent::Deregistered(instance)) => {
                    assert_eq!(self.registered.remove(&instance.socket), Some(instance.id));
                }
                Effect::Changed(
                    _,
                    PluginEvent::Disconnected(instance) | PluginEvent::Connected(instance),
                ) => {
                    panic!("connections are not decided here: {instance:?}");
                }
                Effect::Changed(_, PluginEvent::Rejected { name }) => self.rejected.push(name),
                Effect::Failed(_) => {}
                Effect::Report { socket, error, .. } => self.reports.push((socket, error)),
            }
        }
    }

    /// Answers the attempt on a socket.
    fn answer(&mut self, number: usize, answer: Answer) {
        let path = Self::path(number);
        let Some(attempt) = self.asking.values().find(|attempt| attempt.socket == path).cloned() else {
            return;
        };
        self.asking.remove(&attempt.number);
        let effects = self.registrations.answered(attempt, answer, self.clocks(), 0.0);
        self.apply(effects);
    }

    /// Delivers the outcome to the plugin at a socket, or fails to. Returns the outcome.
    fn notify(&mut self, number: usize, delivery: Result<(), CallError>) -> Option<(bool, String)> {
        let path = Self::path(number);
        let (attempt, is_registered, error) =
            self.notifying.values().find(|(attempt, ..)| attempt.socket == path).cloned()?;
        self.notifying.remove(&attempt.number);
        let effects = self.registrations.notified(attempt, delivery, self.clocks(), 0.0);
        self.apply(effects);
        Some((is_registered, error))
    }

    /// One whole attempt.
    fn register(&mut self, number: usize, answer: Answer) -> Option<(bool, String)> {
        self.begin();
        self.answer(number, answer);
        self.notify(number, Ok(()))
    }

    fn view(&self, number: usize) -> PluginView {
        let socket = Self::path(number).display().to_string();
        self.registrations.view().into_iter().find(|view| view.socket == socket).unwrap()
    }

    fn check(&self) {
        let views = self.registrations.view();
        assert!(views.iter().map(|view| PathBuf::from(&view.socket)).eq(self.seen.keys().cloned()));
        let registered = views.iter().filter(|view| view.is_registered());
        assert!(registered.map(|view| Path::new(&view.socket)).eq(self.registered.keys()));
        let is_full = self.asking.len() + self.notifying.len() >= 16;
        let waits = views.iter().any(|view| match view.state {
            PluginState::Registering | PluginState::Failing => {
                let path = Path::new(&view.socket);
                let is_under_way = |attempt: &Attempt| attempt.socket == path;
                !self.asking.values().any(is_under_way)
                    && !self.notifying.values().any(|(attempt, ..)| is_under_way(attempt))
            }
            PluginState::Serving | PluginState::Standby | PluginState::Unsupported => false,
        });
        match self.registrations.next_due() {
            Some(due) => assert!(due <= self.now + LONGEST),
            None => assert!(is_full || !waits, "a socket is forgotten: {views:?}"),
        }
    }
}

#[test]
fn the_newest_instance_serves_and_the_older_one_again_when_it_goes() {
    let mut node = Node::new();
    for number in [0, 1] {
        node.create(number);
        node.scan(None);
        assert_eq!(node.register(number, good("gpu")), Some((true, String::new())));
    }
    assert_eq!([node.view(0).state, node.view(1).state], [PluginState::Standby, PluginState::Serving]);
    node.disk.remove(&Node::path(1));
    node.scan(None);
    assert_eq!(node.view(0).state, PluginState::Serving);
    assert_eq!(node.registered.len(), 1);
}

#[test]
fn instances_that_were_there_at_start_are_ordered_by_age() {
    let mut node = Node::new();
    node.create(1);
    node.create(0);
    node.scan(None);
    node.begin();
    // The newer one answers first.
    for number in [0, 1] {
        node.answer(number, good("gpu"));
        node.notify(number, Ok(()));
    }
    assert_eq!([node.view(0).state, node.view(1).state], [PluginState::Serving, PluginState::Standby]);
}

#[test]
fn a_socket_replaced_in_place_is_deregistered_and_registered_again() {
    let mut node = Node::new();
    node.create(0);
    node.scan(None);
    node.register(0, good("gpu"));
    let first = node.registered[&Node::path(0)];
    node.create(0);
    node.scan(None);
    assert!(node.registered.is_empty());
    node.register(0, good("gpu"));
    assert!(node.registered[&Node::path(0)] > first);
    // Replaced while its successor is asked: the answer is of a plugin that has exited.
    node.create(0);
    node.scan(None);
    node.begin();
    node.create(0);
    node.scan(None);
    assert!(node.asking.is_empty() && node.registered.is_empty());
    node.check();
}

#[test]
fn an_unreadable_directory_deregisters_nothing() {
    let mut node = Node::new();
    node.create(0);
    node.create(1);
    node.scan(None);
    for number in [0, 1] {
        node.register(number, good("gpu"));
    }
    node.scan(Some("/registry/odd"));
    assert_eq!(node.registered.len(), 2);
    node.disk.clear();
    node.scan(Some("/registry/odd"));
    assert!(node.registered.keys().eq([&Node::path(1)]));
}

#[test]
fn attempts_back_off_from_half_a_second_to_two_minutes() {
    let mut node = Node::new();
    node.create(0);
    node.scan(None);
    let mut delays = Vec::new();
    for _ in 0..10 {
        node.begin();
        node.answer(0, Err(dead()));
        let due = node.registrations.next_due().unwrap();
        delays.push(due.duration_since(node.now).as_millis());
        node.now = due;
    }
    assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122_000, 122_000]);
    // People learn of it once, and not while it may just be starting.
    assert_eq!(node.reports.len(), 1);
    let view = node.view(0);
    assert_eq!((view.state, view.failures), (PluginState::Failing, 10));
    assert!(view.last_error.unwrap().contains("nothing answers at the socket (Connection refused)"));
    // A reload does not wait.
    node.now -= Duration::from_secs(60);
    let clocks = node.clocks();
    node.registrations.retry_all(clocks);
    assert_eq!(node.registrations.next_due(), Some(node.now));
    assert_eq!(node.register(0, good("gpu")), Some((true, String::new())));
    let view = node.view(0);
    assert_eq!((view.state, view.failures, view.last_error), (PluginState::Serving, 0, None));
}

#[test]
fn a_rejected_plugin_is_notified_why_and_tried_again() {
    let mut node = Node::new();
    node.create(0);
    node.scan(None);
    let outcome = node.register(0, good("bad-gpu")).unwrap();
    assert_eq!(outcome, (false, "bad-gpu with 1.0.0 is not accepted".to_owned()));
    assert_eq!(node.reports, [(Node::path(0), outcome.1)]);
    assert_eq!(node.rejected, ["bad-gpu"]);
    let next = node.view(0).next_retry.unwrap();
    assert_eq!(next, node.clocks().wall + Duration::from_millis(500));

    node.now += Duration::from_millis(500);
    let outcome = node.register(0, invalid(InfoError::Empty { field: "name" })).unwrap();
    assert_eq!(outcome, (false, "PluginInfo.name is empty: set it".to_owned()));

    node.now += Duration::from_secs(1);
    let missing = InfoError::NotASocket("/plugins/gpu.sock".into());
    let statement = Statement { claim: Ok(claim("DRAPlugin", "gpu")), endpoint: Err(missing) };
    let (is_registered, error) = node.register(0, Ok(statement)).unwrap();
    assert!(!is_registered && error.contains("/plugins/gpu.sock is not a socket"), "{error}");
    assert_eq!(node.reports.len(), 3);
}

#[test]
fn a_plugin_that_does_not_listen_yet_is_registered_if_its_type_may() {
    let missing = InfoError::NoEndpoint { endpoint: "/plugins/gpu.sock".into(), why: "no".to_owned() };
    let mut node = Node::new();
    node.create(0);
    node.scan(None);
    let statement = Statement { claim: Ok(claim("DRAPlugin", "gpu")), endpoint: Err(missing) };
    assert_eq!(node.register(0, Ok(statement)).unwrap(), (true, String::new()));
}

#[test]
fn an_unsupported_type_is_notified_once_and_listed() {
    let mut node = Node::new();
    node.create(0);
    node.scan(None);
    let csi = || of_type("CSIPlugin", "disk");
    // A plugin that could not be notified is notified again.
    node.begin();
    node.answer(0, csi());
    node.notify(0, Err(dead()));
    node.now = node.registrations.next_due().unwrap();
    let (is_registered, error) = node.register(0, csi()).unwrap();
    assert!(!is_registered);
    assert_eq!(
        error,
        "no handler registered for plugin type: CSIPlugin at socket /registry/even/0.sock; hostlet supports DRAPlugin"
    );
    assert_eq!(node.registrations.next_due(), None);
    let view = node.view(0);
    assert_eq!((view.state, view.name.as_deref()), (PluginState::Unsupported, Some("disk")));
    assert!(view.problems()[0].ends_with("is a CSIPlugin, which hostlet does not support"));
    assert_eq!(node.reports.len(), 1);
}

#[test]
fn a_plugin_that_cannot_be_notified_is_not_registered() {
    let mut node = Node::new();
    node.create(0);
    node.scan(None);
    node.begin();
    node.answer(0, good("gpu"));
    node.notify(0, Err(dead()));
    assert!(node.registered.is_empty());
    assert_eq!(node.view(0).state, PluginState::Failing);
    node.check();
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Remove(usize),
    Scan(bool),
    Begin,
    Answer(usize, u8),
    Notify(usize, bool),
    Pass(u64),
    RetryAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let socket = 0..20_usize;
    let step = prop_oneof![
        2 => socket.clone().prop_map(Step::Create),
        1 => socket.clone().prop_map(Step::Remove),
        3 => any::<bool>().prop_map(Step::Scan),
        4 => Just(Step::Begin),
        6 => (socket.clone(), 0..5_u8).prop_map(|(socket, kind)| Step::Answer(socket, kind)),
        4 => (socket, any::<bool>()).prop_map(|(socket, is_ok)| Step::Notify(socket, is_ok)),
        2 => (0..200_000_u64).prop_map(Step::Pass),
        1 => Just(Step::RetryAll),
    ];
    proptest::collection::vec(step, 0..120)
}

fn answer_of(socket: usize, kind: u8) -> Answer {
    match kind {
        0 => good(["gpu", "nic", "fpga"][socket % 3]),
        1 => good("bad"),
        2 => of_type("CSIPlugin", "disk"),
        3 => invalid(InfoError::Empty { field: "type" }),
        _ => Err(dead()),
    }
}

proptest! {
    /// For any history of sockets, answers and failures: a plugin is registered only while its socket exists, each instance once;
    /// no socket is forgotten or asked twice at once; and once everything answers, every plugin is registered, the newest serving.
    #[test]
    fn any_history_converges(steps in steps()) {
        let mut node = Node::new();
        for step in steps {
            match step {
                Step::Create(number) => node.create(number),
                Step::Remove(number) => drop(node.disk.remove(&Node::path(number))),
                Step::Scan(is_complete) => node.scan((!is_complete).then_some("/registry/odd")),
                Step::Begin => node.begin(),
                Step::Answer(number, kind) => node.answer(number, answer_of(number, kind)),
                Step::Notify(number, true) => drop(node.notify(number, Ok(()))),
                Step::Notify(number, false) => drop(node.notify(number, Err(dead()))),
                Step::Pass(millis) => node.now += Duration::from_millis(millis),
                Step::RetryAll => { let clocks = node.clocks(); node.registrations.retry_all(clocks) }
            }
            node.check();
        }
        node.scan(None);
        for number in 0..20 {
            node.notify(number, Ok(()));
        }
        let clocks = node.clocks();
        node.registrations.retry_all(clocks);
        for _ in 0..10 {
            node.begin();
            for number in 0..20 {
                node.answer(number, answer_of(number, 0));
                node.notify(number, Ok(()));
            }
            node.check();
            node.now += LONGEST;
        }
        prop_assert!(node.registered.keys().eq(node.disk.keys()));
        for number in 0..3 {
            let of_name = |view: &PluginView| view.name.as_deref() == Some(["gpu", "nic", "fpga"][number]);
            let views: Vec<_> = node.registrations.view().into_iter().filter(of_name).collect();
            let serving: Vec<_> = views.iter().filter(|view| view.state == PluginState::Serving).collect();
            prop_assert_eq!(serving.len(), usize::from(!views.is_empty()));
            let newest = views.iter().map(|view| node.registered[Path::new(&view.socket)]).max();
            prop_assert_eq!(serving.first().map(|view| node.registered[Path::new(&view.socket)]), newest);
        }
    }
}

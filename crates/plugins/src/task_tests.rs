//! The task on real directories in paused time, with scripted plugins.

use std::collections::HashMap;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{EventKind, RescanRequester, WallClock};
use hostlet_proto::registration::{PluginInfo, RegistrationStatus};
use hostlet_telemetry::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::client::{Answer, CallError, Conversation, Registrar, Statement};
use super::fake::dra_driver;
use super::handler::{Handlers, PluginHandler};
use super::info::check;
use super::list::PluginList;
use super::scan::SocketIdentity;
use super::task::{PluginSettings, Plugins};
use super::testing::Recorder;
use super::view::PluginState;

/// How the plugin at a socket behaves.
#[derive(Clone, Debug)]
enum Behavior {
    Says(PluginInfo),
    HangsAsked,
    HangsWhenNotified(PluginInfo),
}

#[derive(Default)]
struct Scripted {
    behaviors: Mutex<HashMap<PathBuf, Behavior>>,
    asked: Mutex<Vec<PathBuf>>,
    statuses: Arc<Mutex<Vec<(PathBuf, RegistrationStatus)>>>,
}

#[async_trait]
impl Registrar for Scripted {
    async fn ask(&self, socket: &Path, _: SocketIdentity) -> Result<Answer, CallError> {
        self.asked.lock().push(socket.to_owned());
        let behavior = self.behaviors.lock().get(socket).cloned();
        let (info, is_hung) = match behavior {
            None => return Err(CallError::Connect("refused".to_owned())),
            Some(Behavior::HangsAsked) => {
                sleep(Duration::from_secs(10)).await;
                return Err(CallError::TimedOut { call: "GetInfo", limit: Duration::from_secs(10) });
            }
            Some(Behavior::Says(info)) => (info, false),
            Some(Behavior::HangsWhenNotified(info)) => (info, true),
        };
        let conversation = Box::new(RecordedConversation {
            socket: socket.to_owned(),
            statuses: self.statuses.clone(),
            is_hung,
        });
        let statement = Statement { claim: check(info, socket), endpoint: Ok(()) };
        Ok(Answer { statement, conversation })
    }
}

struct RecordedConversation {
    socket: PathBuf,
    statuses: Arc<Mutex<Vec<(PathBuf, RegistrationStatus)>>>,
    is_hung: bool,
}

#[async_trait]
impl Conversation for RecordedConversation {
    async fn notify(self: Box<Self>, status: RegistrationStatus) -> Result<(), CallError> {
        if self.is_hung {
            let limit = Duration::from_secs(5);
            sleep(limit).await;
            return Err(CallError::TimedOut { call: "NotifyRegistrationStatus", limit });
        }
        self.statuses.lock().push((self.socket, status));
        Ok(())
    }
}

struct Host {
    dir: TempDir,
    scripted: Arc<Scripted>,
    recorder: Arc<Recorder>,
    events: Arc<Mutex<Vec<(EventKind, String)>>>,
    list: PluginList,
    metrics: Metrics,
    rescan: RescanRequester,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
    /// Keep the sockets alive.
    listeners: Vec<UnixListener>,
}

impl Host {
    fn start() -> Self {
        Self::start_with(tempfile::tempdir().unwrap())
    }

    fn start_with(dir: TempDir) -> Self {
        Self::start_for(Recorder::default(), dir)
    }

    fn start_for(recorder: Recorder, dir: TempDir) -> Self {
        let (scripted, recorder) = (Arc::new(Scripted::default()), Arc::new(recorder));
        let (events, rescan) = (Arc::new(Mutex::new(Vec::new())), RescanRequester::default());
        let recorded = events.clone();
        let handler: Arc<dyn PluginHandler> = recorder.clone();
        let settings = PluginSettings {
            registry: dir.path().to_owned(),
            proc: "/proc".into(),
            handlers: Handlers::new([handler]),
            events: Arc::new(move |event| recorded.lock().push((event.kind, event.message))),
            clock: WallClock::of_tokio(Timestamp::UNIX_EPOCH),
            rescan: rescan.subscribe(),
        };
        let plugins = Plugins::with_registrar(settings, scripted.clone(), StdRng::seed_from_u64(1));
        let (list, metrics) = (plugins.list(), Metrics::default());
        plugins.register(&metrics);
        let (cancel, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(plugins.run(cancel.clone()));
        let listeners = Vec::new();
        Self { dir, scripted, recorder, events, list, metrics, rescan, cancel, tasks, listeners }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Creates or replaces a socket.
    fn create(&mut self, name: &str, behavior: Option<Behavior>) {
        let path = self.path(name);
        let created = || fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
        let before = created();
        // The kernel's clock for files may tick every few milliseconds only.
        loop {
            drop(fs::remove_file(&path));
            self.listeners.push(UnixListener::bind(&path).unwrap());
            if created() != before {
                break;
            }
        }
        self.script(name, behavior);
    }

    fn script(&self, name: &str, behavior: Option<Behavior>) {
        let mut behaviors = self.scripted.behaviors.lock();
        match behavior {
            Some(behavior) => drop(behaviors.insert(self.path(name), behavior)),
            None => drop(behaviors.remove(&self.path(name))),
        }
    }

    /// Waits until the handler has received these events.
    async fn wait_for_events(&self, expected: &[&str]) {
        let seen = timeout(Duration::from_secs(600), async {
            while self.recorder.events() != expected {
                sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(seen.await.is_ok(), "{:?} instead of {expected:?}", self.recorder.events());
    }

    async fn stop(mut self) {
        self.cancel.cancel();
        self.tasks.join_next().await.unwrap().unwrap();
    }
}

fn says(name: &str) -> Option<Behavior> {
    Some(Behavior::Says(dra_driver(name, Path::new("/plugins/dra.sock"))))
}

#[tokio::test(start_paused = true)]
async fn plugins_are_registered_as_they_come_and_go() {
    let mut host = Host::start();
    host.create("there-at-start.sock", says("gpu"));
    host.wait_for_events(&["+gpu 1"]).await;
    // In a new directory.
    fs::create_dir(host.path("sub")).unwrap();
    host.create("sub/nic.sock", says("nic"));
    host.wait_for_events(&["+gpu 1", "+nic 2"]).await;
    // Replaced in place, and removed.
    host.create("there-at-start.sock", says("gpu"));
    host.wait_for_events(&["+gpu 1", "+nic 2", "-gpu 1", "+gpu 3"]).await;
    fs::remove_dir_all(host.path("sub")).unwrap();
    host.wait_for_events(&["+gpu 1", "+nic 2", "-gpu 1", "+gpu 3", "-nic 2"]).await;
    let statuses = host.scripted.statuses.lock().clone();
    assert!(statuses.iter().all(|(_, status)| status.plugin_registered), "{statuses:?}");
    let listed = host.list.all();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].state, listed[0].name.as_deref()), (PluginState::Serving, Some("gpu")));
    assert_eq!(listed[0].details.as_ref().unwrap()["devices"], 3);
    let events = host.events.lock().clone();
    assert!(events.iter().all(|(kind, _)| *kind == EventKind::Normal), "{events:?}");
    assert_eq!(events.len(), 5, "{events:?}");
    // Nothing is deregistered because the daemon stops.
    let recorder = host.recorder.clone();
    host.stop().await;
    assert_eq!(recorder.events().len(), 5);
}

/// In real time, in which the next periodic scan is a minute away.
#[tokio::test]
async fn changes_are_noticed_at_once_also_in_new_directories() {
    let mut host = Host::start();
    let noticed = async {
        host.create("gpu.sock", says("gpu"));
        host.wait_for_events(&["+gpu 1"]).await;
        for round in ["+nic 2", "+nic 3"] {
            fs::create_dir_all(host.path("sub/deeper")).unwrap();
            host.create("sub/deeper/nic.sock", says("nic"));
            while host.recorder.events().last().map(String::as_str) != Some(round) {
                sleep(Duration::from_millis(5)).await;
            }
            // Its successor may have the same inode.
            fs::remove_dir_all(host.path("sub")).unwrap();
            while !host.recorder.events().last().is_some_and(|event| event.starts_with("-nic")) {
                sleep(Duration::from_millis(5)).await;
            }
        }
    };
    assert!(timeout(Duration::from_secs(30), noticed).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_does_not_exist_yet_is_found_later() {
    let base = tempfile::tempdir().unwrap();
    let registry = base.path().to_owned();
    fs::remove_dir(&registry).unwrap();
    let mut host = Host::start_with(base);
    sleep(Duration::from_secs(5)).await;
    fs::create_dir(&registry).unwrap();
    host.create("gpu.sock", says("gpu"));
    host.wait_for_events(&["+gpu 1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_socket_is_tried_again_and_reported_once() {
    let mut host = Host::start();
    host.create("gpu.sock", None);
    sleep(Duration::from_secs(200)).await;
    let asked = host.scripted.asked.lock().len();
    assert!((8..=10).contains(&asked), "{asked} attempts in 200 s");
    assert_eq!(host.events.lock().len(), 1);
    let problems = host.list.problems();
    assert!(problems[0].contains("gpu.sock cannot be registered: nothing answers"), "{problems:?}");
    // It begins to answer: nobody waits two minutes after a reload.
    host.script("gpu.sock", says("gpu"));
    host.rescan.request();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(host.recorder.events(), ["+gpu 1"]);
    assert!(host.list.problems().is_empty());
    let text = host.metrics.encode();
    assert!(text.contains("hostlet_plugin_registrations_total{result=\"registered\"} 1"), "{text}");
    assert!(text.contains("state=\"actual_state_of_world\"} 1"), "{text}");
    assert!(text.contains("state=\"desired_state_of_world\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn hung_plugins_delay_only_themselves() {
    let mut host = Host::start();
    for number in 0..40 {
        host.create(&format!("a{number}.sock"), Some(Behavior::HangsAsked));
    }
    host.create("b.sock", Some(Behavior::HangsWhenNotified(dra_driver("b", Path::new("/b.sock")))));
    host.create("gpu.sock", says("gpu"));
    // At most 16 at a time, so those 40 take three rounds of ten seconds.
    sleep(Duration::from_secs(60)).await;
    let registered: Vec<_> = host.list.all().into_iter().filter(|view| view.is_registered()).collect();
    assert_eq!(registered.len(), 1);
    assert_eq!(registered[0].name.as_deref(), Some("gpu"));
    let failing = host.list.all().into_iter().filter(|view| view.state == PluginState::Failing);
    assert_eq!(failing.count(), 41);
}

#[tokio::test(start_paused = true)]
async fn a_flapping_plugin_ends_as_its_socket_does() {
    let mut host = Host::start();
    for _ in 0..30 {
        host.create("gpu.sock", says("gpu"));
        sleep(Duration::from_millis(70)).await;
        drop(fs::remove_file(host.path("gpu.sock")));
        sleep(Duration::from_millis(30)).await;
    }
    host.create("gpu.sock", says("gpu"));
    sleep(Duration::from_secs(120)).await;
    let events = host.recorder.events();
    assert!(events.last().is_some_and(|event| event.starts_with("+gpu ")), "{events:?}");
    for (number, event) in events.iter().enumerate() {
        assert!(event.starts_with(if number.is_multiple_of(2) { "+gpu" } else { "-gpu" }), "{events:?}");
    }
    assert_eq!(host.list.all()[0].state, PluginState::Serving);
}

#[tokio::test(start_paused = true)]
async fn rejected_and_unsupported_plugins_are_notified_and_listed() {
    let mut host = Host::start();
    host.create("bad.sock", says("bad"));
    let csi = PluginInfo { r#type: "CSIPlugin".to_owned(), ..dra_driver("disk", Path::new("/csi.sock")) };
    host.create("csi.sock", Some(Behavior::Says(csi)));
    host.create("nonsense.sock", Some(Behavior::Says(PluginInfo::default())));
    sleep(Duration::from_secs(300)).await;
    let statuses = host.scripted.statuses.lock().clone();
    let of = |name: &str| {
        let path = host.path(name);
        let errors =
            statuses.iter().filter(|(socket, _)| *socket == path).map(|(_, status)| status.error.clone());
        errors.collect::<Vec<_>>()
    };
    assert!(of("bad.sock").len() > 3 && of("bad.sock")[0].contains("is not accepted"), "{statuses:?}");
    assert_eq!(of("csi.sock").len(), 1);
    assert!(of("csi.sock")[0].contains("hostlet supports DRAPlugin"), "{statuses:?}");
    assert_eq!(of("nonsense.sock")[0], "PluginInfo.type is empty: set it");
    let states: Vec<_> = host.list.all().into_iter().map(|view| view.state).collect();
    assert_eq!(states, [PluginState::Failing, PluginState::Unsupported, PluginState::Failing]);
    assert_eq!(host.list.problems().len(), 2);
    let events = host.events.lock().clone();
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events.iter().all(|(kind, _)| *kind == EventKind::Warning));
    let rejected = host.recorder.events();
    assert_eq!(rejected, vec!["!bad"; of("bad.sock").len()], "each attempt");
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_an_instance_is_followed_until_it_is_deregistered() {
    let mut host = Host::start_for(Recorder::following(), tempfile::tempdir().unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let endpoint = elsewhere.path().join("plugin.sock");
    // Nobody listens: as after a crash of the plugin.
    host.create("a", Some(Behavior::Says(dra_driver("gpu.example.com", &endpoint))));
    host.wait_for_events(&["+gpu.example.com 1", "?gpu.example.com 1"]).await;
    let _listener = UnixListener::bind(&endpoint).unwrap();
    host.wait_for_events(&["+gpu.example.com 1", "?gpu.example.com 1", "=gpu.example.com 1"]).await;
    fs::remove_file(host.path("a")).unwrap();
    let all = ["+gpu.example.com 1", "?gpu.example.com 1", "=gpu.example.com 1", "-gpu.example.com 1"];
    host.wait_for_events(&all).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(host.recorder.events(), all, "nothing of it is followed anymore");
}

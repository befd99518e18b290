//! The task with scripted drivers and a fake API server, in paused time.

use std::path::PathBuf;
use std::time::Duration;

use hostlet_plugins::PluginHandler;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::testing::{Daemon, Devices, NODE, SLICES, devices, message};
use crate::api::fake::{ApiFault, ApiRule};

const DRIVER: &str = "gpu.example.com";
const MINUTE: Duration = Duration::from_secs(60);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A started daemon with a driver that has these devices.
async fn with(all: &Devices) -> (Daemon, PathBuf) {
    let mut daemon = Daemon::new();
    daemon.start();
    let socket = daemon.register(DRIVER);
    daemon.drivers.say(&socket, message(all, false));
    daemon.publishes(DRIVER, all, MINUTE).await;
    (daemon, socket)
}

#[tokio::test(start_paused = true)]
async fn devices_are_published_changed_and_removed_with_few_writes() {
    let mut all = devices(0..300, 1);
    let (mut daemon, socket) = with(&all).await;
    assert_eq!(daemon.writes().len(), 3);
    let sizes: Vec<usize> = daemon
        .slices(DRIVER)
        .iter()
        .map(|slice| slice["spec"]["devices"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 300);
    assert!(sizes.iter().all(|size| *size <= 128), "{sizes:?}");
    sleep(seconds(2)).await;
    all.insert("dev-00007".to_owned(), 2);
    daemon.drivers.say(&socket, message(&all, false));
    let took = daemon.publishes(DRIVER, &all, seconds(5)).await;
    assert_eq!(daemon.writes().len(), 4, "one write for one device");
    assert!(took < Duration::from_millis(100), "{took:?}");
    let report = daemon.dra.describe(DRIVER).unwrap();
    assert_eq!(
        (&report["devices"], &report["slices"], &report["stream"]),
        (&json!(300), &json!(3), &json!("Open"))
    );
    daemon.deregister(&socket);
    daemon.publishes(DRIVER, &Devices::new(), seconds(40)).await;
    assert_eq!(daemon.writes().len(), 7);
    assert_eq!(daemon.dra.describe(DRIVER), None, "nothing of it is remembered");
}

/// In paused time, everything that happens at once happens at the same instant; in real time it does not.
#[tokio::test]
async fn devices_are_published_in_real_time() {
    let (daemon, socket) = with(&devices(0..200, 1)).await;
    daemon.drivers.say(&socket, message(&devices(0..201, 2), false));
    daemon.publishes(DRIVER, &devices(0..201, 2), MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn five_thousand_devices_are_one_pool() {
    let all = devices(0..5000, 1);
    let (daemon, _) = with(&all).await;
    assert_eq!((daemon.slices(DRIVER).len(), daemon.writes().len()), (40, 40));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_updates_a_second_are_one_write_a_second() {
    let (daemon, socket) = with(&devices(0..10, 0)).await;
    sleep(seconds(2)).await;
    let before = daemon.writes().len();
    let began = Instant::now();
    for value in 1..=10_000 {
        daemon.drivers.say(&socket, message(&devices(0..10, value), false));
        sleep(Duration::from_millis(1)).await;
    }
    daemon.publishes(DRIVER, &devices(0..10, 10_000), seconds(3)).await;
    let most = began.elapsed().as_secs() as usize + 2;
    let writes = daemon.writes().len() - before;
    assert!((8..=most).contains(&writes), "{writes} writes in {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_is_opened_again_with_growing_pauses() {
    let all = devices(0..3, 1);
    let (daemon, socket) = with(&all).await;
    daemon.drivers.opened.lock().clear();
    let began = Instant::now();
    daemon.drivers.change(&socket, |script| script.cuts += 1);
    sleep(seconds(6)).await;
    let opened = daemon.drivers.opened.lock().clone();
    assert_eq!(opened.len(), 1);
    assert!(opened[0].0 - began >= Duration::from_millis(2500));
    let began = Instant::now();
    daemon.drivers.opened.lock().clear();
    daemon.drivers.change(&socket, |script| script.is_down = true);
    sleep(seconds(3600)).await;
    let pauses = pauses(&daemon, began);
    assert!(pauses[0] <= 10 && pauses.iter().skip(6).all(|pause| (89..=180).contains(pause)), "{pauses:?}");
    let report = daemon.dra.describe(DRIVER).unwrap();
    assert!(report["lastError"].is_string() && report["nextRetry"].is_string(), "{report}");
    assert_eq!(daemon.published(DRIVER).as_ref(), Ok(&all), "its slices remain");
    daemon.drivers.change(&socket, |script| script.is_down = false);
    daemon.drivers.say(&socket, message(&devices(0..4, 1), false));
    daemon.publishes(DRIVER, &devices(0..4, 1), seconds(200)).await;
}

/// The pauses before each opened stream, in seconds.
fn pauses(daemon: &Daemon, began: Instant) -> Vec<u64> {
    let opened: Vec<Instant> = daemon.drivers.opened.lock().iter().map(|(at, _)| *at).collect();
    std::iter::once(&began).chain(&opened).zip(&opened).map(|(a, b)| (*b - *a).as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_has_said_everything_may_end_its_stream() {
    let all = devices(0..3, 1);
    let (daemon, socket) = with(&all).await;
    daemon.drivers.opened.lock().clear();
    let began = Instant::now();
    daemon.drivers.change(&socket, |script| (script.cuts, script.ends_well) = (1, true));
    sleep(seconds(100)).await;
    let report = daemon.dra.describe(DRIVER).unwrap();
    assert_eq!((&report["stream"], &report["lastError"]), (&json!("Ended"), &Value::Null));
    sleep(MINUTE * 11).await;
    let pauses = pauses(&daemon, began);
    assert!(pauses.len() == 1 && pauses[0] >= 180, "{pauses:?}");
    assert_eq!(daemon.published(DRIVER), Ok(all));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_message_or_panics_is_opened_again_with_pauses() {
    for is_poison in [false, true] {
        let mut daemon = Daemon::new();
        daemon.start();
        let socket = daemon.register(DRIVER);
        daemon.drivers.change(&socket, |script| {
            (script.is_poison, script.ends_well, script.is_silent) = (is_poison, true, true);
        });
        sleep(seconds(3600)).await;
        let opened = daemon.drivers.opened.lock().len();
        assert!((20..60).contains(&opened), "opened {opened} times, panics: {is_poison}");
        let report = daemon.dra.describe(DRIVER).unwrap();
        let expected = if is_poison { "panicked" } else { "before it sent a message" };
        assert!(report["lastError"].as_str().unwrap().contains(expected), "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_drivers_that_are_gone_are_deleted() {
    for publishes in [true, false] {
        let mut daemon = Daemon::new();
        daemon.publishes = publishes;
        let (of_gone, of_other_node) =
            (daemon.put_own("gone.example.com", NODE), daemon.put_own(DRIVER, "node2"));
        let of_registered = daemon.put_own(DRIVER, NODE);
        daemon.start();
        let socket = daemon.register(DRIVER);
        sleep(seconds(20)).await;
        assert!(daemon.has(&of_gone), "its driver may still register");
        sleep(seconds(20)).await;
        assert!(!daemon.has(&of_gone));
        sleep(MINUTE * 30).await;
        assert!(daemon.has(&of_registered) && daemon.has(&of_other_node));
        daemon.deregister(&socket);
        sleep(seconds(20)).await;
        assert!(daemon.has(&of_registered), "it may be a restart");
        sleep(seconds(20)).await;
        assert!(!daemon.has(&of_registered) && daemon.has(&of_other_node));
        assert_eq!(daemon.writes().len(), 2, "publishes: {publishes}");
        // Another instance registers, publishes, and dies; its registration socket stays.
        let socket = daemon.register(DRIVER);
        for _ in 0..2 {
            daemon.connected(&socket, true);
            let own = daemon.put_own(DRIVER, NODE);
            sleep(MINUTE).await;
            daemon.connected(&socket, false);
            sleep(seconds(20)).await;
            assert!(daemon.has(&own), "it may come back");
            daemon.connected(&socket, true);
            sleep(MINUTE).await;
            assert!(daemon.has(&own), "it came back");
            daemon.connected(&socket, false);
            sleep(seconds(40)).await;
            assert!(!daemon.has(&own), "publishes: {publishes}");
        }
        daemon.connected(&socket, true);
        sleep(MINUTE).await;
        if !publishes {
            let requests = daemon.api.requests().len();
            sleep(MINUTE * 60).await;
            assert_eq!(daemon.api.requests().len(), requests, "it is idle");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_rejected_driver_publishes_is_deleted_whenever_it_comes_back() {
    for publishes in [true, false] {
        let mut daemon = Daemon::new();
        daemon.publishes = publishes;
        let slice = daemon.put_own(DRIVER, NODE);
        daemon.start();
        daemon.reject(DRIVER);
        sleep(seconds(2)).await;
        assert!(!daemon.has(&slice), "publishes: {publishes}");
        for _ in 0..3 {
            daemon.put_own(DRIVER, NODE);
            sleep(seconds(20)).await;
            assert!(daemon.has(&slice), "a driver that publishes again at once is no loop");
            daemon.reject(DRIVER);
            sleep(seconds(12)).await;
            assert!(!daemon.has(&slice));
        }
        assert_eq!(daemon.writes().len(), 4);
        daemon.register(DRIVER);
        daemon.put_own(DRIVER, NODE);
        sleep(MINUTE * 30).await;
        assert!(daemon.has(&slice), "a later version of the driver is accepted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_the_method_is_asked_once() {
    let mut daemon = Daemon::new();
    daemon.start();
    let socket = daemon.register(DRIVER);
    daemon.drivers.change(&socket, |script| script.is_unsupported = true);
    sleep(MINUTE * 60).await;
    assert_eq!(daemon.drivers.opened.lock().len(), 1);
    let report = daemon.dra.describe(DRIVER).unwrap();
    assert_eq!((&report["stream"], &report["devices"]), (&json!("Unsupported"), &Value::Null));
    assert_eq!(daemon.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_begins_to_publish_by_itself_leaves_nothing() {
    let (mut daemon, old) = with(&devices(0..3, 1)).await;
    let new = daemon.register(DRIVER);
    daemon.drivers.change(&new, |script| script.is_unsupported = true);
    daemon.publishes(DRIVER, &Devices::new(), seconds(5)).await;
    daemon.deregister(&old);
    sleep(MINUTE).await;
    assert_eq!(daemon.slices(DRIVER).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_newest_instance_serves_and_slices_survive_the_change() {
    let (mut daemon, old) = with(&devices(0..3, 1)).await;
    let new = daemon.register(DRIVER);
    daemon.drivers.say(&old, message(&devices(0..9, 9), false));
    sleep(MINUTE).await;
    assert_eq!(
        daemon.published(DRIVER),
        Ok(devices(0..3, 1)),
        "the new one said nothing yet, the old one does not serve"
    );
    daemon.drivers.say(&new, message(&devices(0..4, 2), false));
    daemon.publishes(DRIVER, &devices(0..4, 2), seconds(5)).await;
    daemon.deregister(&new);
    daemon.publishes(DRIVER, &devices(0..9, 9), seconds(5)).await;
    // Restarted within the grace period.
    let writes = daemon.writes().len();
    daemon.deregister(&old);
    sleep(seconds(20)).await;
    daemon.register_at(DRIVER, &old);
    sleep(MINUTE).await;
    assert_eq!(daemon.writes().len(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_hostlet_writes_nothing_and_cleans_up_after_drivers_that_are_gone() {
    let all = devices(0..200, 1);
    let (mut daemon, socket) = with(&all).await;
    let other = daemon.register("nic.example.com");
    daemon.drivers.say(&other, message(&devices(0..2, 1), false));
    daemon.publishes("nic.example.com", &devices(0..2, 1), seconds(5)).await;
    let writes = daemon.writes().len();
    daemon.start();
    sleep(MINUTE * 30).await;
    assert_eq!(daemon.writes().len(), writes);
    // A driver that is registered, but silent.
    daemon.drivers.change(&socket, |script| script.said = None);
    daemon.start();
    sleep(MINUTE * 30).await;
    assert_eq!(daemon.writes().len(), writes);
    daemon.stop();
    daemon.deregister(&other);
    daemon.start();
    sleep(seconds(20)).await;
    assert_eq!(daemon.writes().len(), writes);
    daemon.publishes("nic.example.com", &Devices::new(), seconds(30)).await;
    assert_eq!(daemon.published(DRIVER), Ok(all));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_publishing_is_off_and_old_slices_are_removed() {
    let (mut daemon, _) = with(&devices(0..200, 1)).await;
    let foreign = foreign_slices(&daemon);
    daemon.publishes = false;
    daemon.start();
    daemon.publishes(DRIVER, &Devices::new(), seconds(5)).await;
    let requests = daemon.api.requests().len();
    sleep(MINUTE * 60).await;
    assert_eq!(daemon.api.requests().len(), requests, "it is idle");
    assert_eq!(daemon.dra.describe(DRIVER).unwrap()["publishing"], "Off");
    assert_eq!(foreign_slices(&daemon), foreign);
}

/// Slices that hostlet must not touch: of a registered driver's own pool, and of another node.
fn foreign_slices(daemon: &Daemon) -> Vec<Value> {
    let paths = [NODE, "node2"].map(|node| format!("{SLICES}/{node}-{DRIVER}"));
    for (path, node) in paths.iter().zip([NODE, "node2"]) {
        if !daemon.has(path) {
            daemon.put_own(DRIVER, node);
        }
    }
    paths.map(|path| daemon.api.get(&path).unwrap_or_default()).into()
}

#[tokio::test(start_paused = true)]
async fn lists_are_native_where_the_server_stores_them_and_joined_elsewhere() {
    for stores in [true, false] {
        let mut daemon = Daemon::new();
        daemon.api.store_lists(stores);
        daemon.start();
        let socket = daemon.register(DRIVER);
        let all = devices(0..100, 7);
        daemon.drivers.say(&socket, message(&all, true));
        daemon.publishes(DRIVER, &all, seconds(5)).await;
        let slices = daemon.slices(DRIVER);
        assert_eq!(slices.len(), if stores { 2 } else { 1 });
        let list = &slices[0]["spec"]["devices"][0]["attributes"]["list"];
        assert_eq!(*list, if stores { json!({"ints": [1, 2, 7]}) } else { json!({"string": "1,2,7"}) });
        assert!(daemon.writes().iter().all(|write| write.code < 300), "no write was rejected");
        // The server learns it: found out with the next list.
        daemon.api.store_lists(true);
        sleep(MINUTE * 15).await;
        assert_eq!(
            daemon.slices(DRIVER)[0]["spec"]["devices"][0]["attributes"]["list"],
            json!({"ints": [1, 2, 7]})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_version_of_the_api_is_used_and_none_is_said_once() {
    let mut daemon = Daemon::new();
    let gone = |version: &str| {
        let reject = ApiFault::Reject { code: 404, reason: "NotFound", retry_after: 0 };
        ApiRule::always("", &format!("/apis/resource.k8s.io/{version}/"), reject)
    };
    for version in ["v1", "v1beta2", "v1beta1"] {
        daemon.api.fail(gone(version));
    }
    daemon.start();
    let socket = daemon.register(DRIVER);
    daemon.drivers.say(&socket, message(&devices(0..3, 1), false));
    sleep(MINUTE * 60).await;
    let report = daemon.dra.describe(DRIVER).unwrap();
    assert_eq!(report["publishing"], "Unavailable");
    assert!(report["lastError"].as_str().unwrap().contains("serves no ResourceSlices"), "{report}");
    daemon.api.heal();
    daemon.api.fail(gone("v1"));
    daemon.api.fail(gone("v1beta2"));
    sleep(MINUTE * 6).await;
    let slices: Vec<Value> = daemon.api.list("/apis/resource.k8s.io/v1beta1/resourceslices");
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["spec"]["devices"][0]["basic"]["attributes"]["generation"], json!({"int": 1}));
    assert_eq!(daemon.dra.describe(DRIVER).unwrap()["lastError"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_api_server_are_survived_and_reported() {
    let all = devices(0..300, 1);
    let (daemon, socket) = with(&all).await;
    let reject = |code, reason| ApiFault::Reject { code, reason, retry_after: 0 };
    let faults = [
        reject(403, "Forbidden"),
        reject(409, "Conflict"),
        reject(422, "Invalid"),
        ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 7 },
        reject(500, "InternalError"),
        ApiFault::Reset,
        ApiFault::LostAnswer,
        ApiFault::Hang,
    ];
    for (value, fault) in (2..).zip(faults) {
        daemon.api.fail(ApiRule { times: 3, ..ApiRule::once("PATCH", "resourceslices", fault.clone()) });
        let all = devices(0..300, value);
        daemon.drivers.say(&socket, message(&all, false));
        daemon.publishes(DRIVER, &all, MINUTE * 10).await;
        sleep(MINUTE).await;
        assert_eq!(daemon.dra.describe(DRIVER).unwrap()["lastError"], Value::Null, "{fault:?}");
    }
    let events: Vec<String> = daemon.events.lock().iter().map(|event| event.reason.to_string()).collect();
    assert!(
        events.iter().all(|reason| reason == "ResourceSlicesNotPublished") && events.len() >= 4,
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_creation_without_a_response_is_not_repeated_blindly() {
    let mut daemon = Daemon::new();
    daemon.api.fail(ApiRule { times: 2, ..ApiRule::once("POST", "resourceslices", ApiFault::LostAnswer) });
    daemon.start();
    let socket = daemon.register(DRIVER);
    let all = devices(0..300, 1);
    daemon.drivers.say(&socket, message(&all, false));
    daemon.publishes(DRIVER, &all, MINUTE).await;
    sleep(MINUTE).await;
    assert_eq!(daemon.writes().len(), 3, "each slice was created once");
}

#[tokio::test(start_paused = true)]
async fn a_new_node_owns_the_slices() {
    let all = devices(0..200, 1);
    let (mut daemon, _) = with(&all).await;
    daemon.create_node();
    daemon.publishes(DRIVER, &all, seconds(5)).await;
    assert_eq!(daemon.writes().len(), 4, "two slices were created and got another owner");
    daemon.delete_node();
    sleep(MINUTE).await;
    assert_eq!(daemon.slices(DRIVER).len(), 0, "without a Node there are no slices");
    daemon.create_node();
    daemon.publishes(DRIVER, &all, seconds(5)).await;
    assert_eq!(daemon.writes().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn what_others_do_to_the_slices_is_undone() {
    let all = devices(0..200, 1);
    let (daemon, _) = with(&all).await;
    let foreign = foreign_slices(&daemon);
    let path = |index: usize| {
        format!("{SLICES}/{}", daemon.slices(DRIVER)[index]["metadata"]["name"].as_str().unwrap())
    };
    daemon.api.delete(&path(0), None);
    daemon.publishes(DRIVER, &all, seconds(5)).await;
    let mut slice: Value = daemon.api.get(&path(1)).unwrap();
    slice["spec"]["devices"][0]["attributes"]["generation"] = json!({"int": 99});
    slice["metadata"]["labels"] = json!({"theirs": "yes"});
    daemon.api.put(&path(1), &slice);
    daemon.publishes(DRIVER, &all, seconds(5)).await;
    let slice: Value = daemon.api.get(&path(1)).unwrap();
    assert_eq!(slice["metadata"]["labels"]["theirs"], "yes", "their metadata remains");
    assert_eq!(foreign_slices(&daemon), foreign);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_drops_in_silence_is_not_sent_again() {
    let mut daemon = Daemon::new();
    daemon.api.fail(ApiRule::always("POST", "resourceslices", ApiFault::Strip("/spec/devices/0/capacity")));
    daemon.start();
    let socket = daemon.register(DRIVER);
    let mut all = message(&devices(0..1, 1), false);
    let instances = &mut all.resources[0].named_resources.as_mut().unwrap().instances;
    instances[0].attributes.push(hostlet_proto::dra::NamedResourcesAttribute {
        name: "memory".to_owned(),
        attribute_value: Some(hostlet_proto::dra::NamedResourcesAttributeValue {
            quantity: Some(hostlet_proto::dra::Quantity { string: Some("1Gi".to_owned()) }),
            ..Default::default()
        }),
    });
    daemon.drivers.say(&socket, all);
    daemon.publishes(DRIVER, &devices(0..1, 1), seconds(5)).await;
    sleep(MINUTE * 60).await;
    assert_eq!(daemon.writes().len(), 1);
}

/// What can happen to the tasks.
#[derive(Clone, Debug)]
enum Step {
    Register(usize),
    Deregister { driver: usize, newest: bool },
    Say { driver: usize, newest: bool, first: usize, number: usize, value: i64 },
    Cut(usize),
    Down { driver: usize, is_down: bool },
    Restart,
    Fault(usize),
    Heal,
    NewNode,
    DeleteNode,
    Meddle { delete: bool },
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..2usize).prop_map(Step::Register),
        1 => (0..2usize, any::<bool>()).prop_map(|(driver, newest)| Step::Deregister { driver, newest }),
        6 => (0..2usize, any::<bool>(), 0..200usize, 0..300usize, 0..3i64).prop_map(
            |(driver, newest, first, number, value)| Step::Say { driver, newest, first, number, value }
        ),
        1 => (0..2usize).prop_map(Step::Cut),
        1 => (0..2usize, any::<bool>()).prop_map(|(driver, is_down)| Step::Down { driver, is_down }),
        1 => Just(Step::Restart),
        3 => (0..12usize).prop_map(Step::Fault),
        1 => Just(Step::Heal),
        1 => Just(Step::NewNode),
        1 => Just(Step::DeleteNode),
        1 => any::<bool>().prop_map(|delete| Step::Meddle { delete }),
        4 => (0..40_000u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..30)
}

fn fault(number: usize) -> ApiRule {
    let reject = |code, reason| ApiFault::Reject { code, reason, retry_after: 0 };
    let some = |method, fault| ApiRule { times: 2, ..ApiRule::once(method, "resourceslices", fault) };
    match number {
        0 => some("POST", ApiFault::LostAnswer),
        1 => some("POST", ApiFault::Hang),
        2 => some("PATCH", ApiFault::LostAnswer),
        3 => some("PATCH", reject(409, "Conflict")),
        4 => some("DELETE", ApiFault::LostAnswer),
        5 => some("", reject(403, "Forbidden")),
        6 => some("", ApiFault::Reset),
        7 => some("", ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 2 }),
        8 => some("WATCH", ApiFault::CutWatch(1)),
        9 => some("WATCH", ApiFault::HalfOpenWatch(1)),
        10 => some("GET", reject(404, "NotFound")),
        _ => some("", ApiFault::Delay(seconds(3))),
    }
}

async fn perform(daemon: &mut Daemon, step: &Step) {
    let name = |driver: usize| ["gpu.example.com", "nic.example.com"][driver];
    let pick = |daemon: &Daemon, driver: usize, newest: bool| {
        let sockets = daemon.sockets(name(driver));
        if newest { sockets.last().cloned() } else { sockets.first().cloned() }
    };
    match *step {
        Step::Register(driver) => {
            if daemon.sockets(name(driver)).len() < 2 {
                daemon.register(name(driver));
            }
        }
        Step::Deregister { driver, newest } => {
            if let Some(socket) = pick(daemon, driver, newest) {
                daemon.deregister(&socket);
            }
        }
        Step::Say { driver, newest, first, number, value } => {
            if let Some(socket) = pick(daemon, driver, newest) {
                daemon.drivers.say(&socket, message(&devices(first..first + number, value), value == 2));
            }
        }
        Step::Cut(driver) => {
            if let Some(socket) = pick(daemon, driver, true) {
                daemon.drivers.change(&socket, |script| script.cuts += 1);
            }
        }
        Step::Down { driver, is_down } => {
            if let Some(socket) = pick(daemon, driver, true) {
                daemon.drivers.change(&socket, |script| script.is_down = is_down);
            }
        }
        Step::Restart => daemon.start(),
        Step::Fault(number) => daemon.api.fail(fault(number)),
        Step::Heal => daemon.api.heal(),
        Step::NewNode => daemon.create_node(),
        Step::DeleteNode => daemon.delete_node(),
        Step::Meddle { delete } => {
            if let Some(slice) = daemon.slices(name(0)).first() {
                let path = format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap());
                if delete {
                    daemon.api.delete(&path, None);
                } else {
                    let mut slice = slice.clone();
                    slice["spec"]["pool"]["generation"] = json!(50);
                    daemon.api.put(&path, &slice);
                }
            }
        }
        Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
    }
}

async fn converges(steps: Vec<Step>) {
    let mut daemon = Daemon::new();
    let elsewhere = daemon.put_own("gpu.example.com", "node2");
    daemon.start();
    for step in &steps {
        perform(&mut daemon, step).await;
    }
    // Everything works again, and every driver that is there says its last word.
    daemon.api.heal();
    daemon.create_node();
    let mut expected = Vec::new();
    for (driver, value) in [("gpu.example.com", 5), ("nic.example.com", 6)] {
        let sockets = daemon.sockets(driver);
        for socket in &sockets {
            daemon.drivers.change(socket, |script| script.is_down = false);
        }
        let word = match sockets.last() {
            Some(socket) => {
                let word = devices(0..150, value);
                daemon.drivers.say(socket, message(&word, false));
                word
            }
            None => Devices::new(),
        };
        expected.push((driver, word));
    }
    // A stream is opened again after at most 3 minutes, a silent watch is replaced after 10.
    for (driver, word) in &expected {
        daemon.publishes(driver, word, MINUTE * 25).await;
    }
    sleep(MINUTE * 12).await;
    let writes = daemon.writes().len();
    sleep(MINUTE * 30).await;
    assert_eq!(daemon.writes().len(), writes, "writes without a reason: {:?}", daemon.writes().last());
    for (driver, mut word) in expected {
        assert_eq!(daemon.published(driver).as_ref(), Ok(&word), "{driver}");
        if let Some(socket) = daemon.sockets(driver).last() {
            let before = daemon.writes().len();
            word.insert("dev-00003".to_owned(), 99);
            daemon.drivers.say(socket, message(&word, false));
            daemon.publishes(driver, &word, seconds(3)).await;
            assert_eq!(daemon.writes().len() - before, 1, "one device, one write");
        }
    }
    assert!(daemon.has(&elsewhere), "a slice of another node was touched");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// For any history of drivers, restarts of hostlet and faults of the API server, the slices become what the drivers said last,
    /// and nothing is written without a reason.
    #[test]
    fn the_slices_converge_to_the_last_word(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(converges(steps));
    }
}

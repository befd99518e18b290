//! Registrations, connections and words of one driver, at chosen times.

use super::*;

fn instance(id: u64) -> Arc<PluginInstance> {
    Arc::new(PluginInstance {
        id: InstanceId(id),
        name: "d".to_owned(),
        endpoint: "/d.sock".into(),
        versions: vec!["1.0.0".to_owned()],
        socket: "/reg.sock".into(),
        since: Timestamp::UNIX_EPOCH,
    })
}

fn serving(driver: &Driver) -> Option<u64> {
    driver.serving().map(|instance| instance.id.0)
}

#[tokio::test(start_paused = true)]
async fn the_newest_instance_serves_and_the_older_one_again_after_it() {
    let now = Instant::now();
    let mut driver = Driver::deregistered(now);
    for id in [1, 2] {
        driver.changed(PluginEvent::Registered(instance(id)), now);
        assert_eq!(serving(&driver), Some(id));
    }
    driver.link = Link::Open;
    driver.changed(PluginEvent::Deregistered(instance(1)), now);
    assert_eq!((serving(&driver), &driver.link), (Some(2), &Link::Open), "its stream stays");
    driver.changed(PluginEvent::Registered(instance(3)), now);
    assert_eq!(driver.link, Link::Closed);
    driver.changed(PluginEvent::Deregistered(instance(3)), now);
    assert_eq!(serving(&driver), Some(2));
}

#[tokio::test(start_paused = true)]
async fn the_last_word_remains_until_the_driver_is_gone_for_long() {
    let now = Instant::now();
    let mut driver = Driver::deregistered(now);
    driver.changed(PluginEvent::Registered(instance(1)), now);
    assert!(matches!(driver.goal(now + GRACE * 9), Goal::Leave), "a silent driver wipes nothing");
    let said = || Word::Said(Arc::new(Inventory::default()));
    assert!(driver.said(said(), Timestamp::UNIX_EPOCH, now));
    assert!(!driver.said(said(), Timestamp::UNIX_EPOCH, now), "the same again");
    driver.changed(PluginEvent::Deregistered(instance(1)), now);
    assert!(matches!(driver.goal(now + GRACE / 2), Goal::Devices(_)));
    assert!(matches!(driver.goal(now + GRACE), Goal::Nothing) && driver.is_forgotten(now + GRACE));
    driver.changed(PluginEvent::Registered(instance(2)), now + GRACE / 2);
    assert!(matches!(driver.goal(now + GRACE * 2), Goal::Devices(_)), "it came back in time");
    driver.said(Word::Unsupported, Timestamp::UNIX_EPOCH, now);
    assert!(matches!(driver.goal(now), Goal::Nothing), "it does not report devices any more");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_cannot_be_reached_is_gone_for_its_slices() {
    let now = Instant::now();
    let mut driver = Driver::deregistered(now);
    for id in [1, 2] {
        driver.changed(PluginEvent::Registered(instance(id)), now);
    }
    driver.said(Word::Said(Arc::new(Inventory::default())), Timestamp::UNIX_EPOCH, now);
    (driver.slices, driver.link) = (1, Link::Open);
    driver.changed(PluginEvent::Disconnected(instance(2)), now);
    assert_eq!((serving(&driver), &driver.link), (Some(1), &Link::Closed), "the other one can be reached");
    assert!(driver.is_reachable() && !driver.is_expired(now + GRACE));
    driver.changed(PluginEvent::Disconnected(instance(1)), now);
    driver.changed(PluginEvent::Deregistered(instance(1)), now + GRACE / 2);
    driver.pace.started(now + GRACE / 2);
    assert_eq!((serving(&driver), driver.is_reachable()), (Some(2), false));
    assert!(matches!(driver.goal(now + GRACE / 2), Goal::Devices(_)));
    assert_eq!(driver.due(), Some(now + GRACE), "counted from when the last one was lost");
    assert!(matches!(driver.goal(now + GRACE), Goal::Nothing) && !driver.is_forgotten(now + GRACE));
    driver.slices = 0;
    assert_eq!(driver.due(), None, "nothing is left to do");
    driver.changed(PluginEvent::Connected(instance(2)), now + GRACE);
    assert!(driver.is_reachable() && matches!(driver.goal(now + GRACE * 9), Goal::Devices(_)));
    driver.changed(PluginEvent::Disconnected(instance(2)), now + GRACE);
    driver.changed(PluginEvent::Registered(instance(3)), now + GRACE * 2);
    assert_eq!((serving(&driver), driver.is_expired(now + GRACE * 9)), (Some(3), false));
}

#[tokio::test(start_paused = true)]
async fn slices_of_an_unknown_driver_expire() {
    let now = Instant::now();
    let driver = Driver::deregistered(now);
    assert!(matches!(driver.goal(now), Goal::Leave));
    assert!(matches!(driver.goal(now + GRACE), Goal::Nothing));
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_rejected_driver_go_at_once_and_return_in_vain() {
    let now = Instant::now();
    let rejected = || PluginEvent::Rejected { name: "d".to_owned() };
    let mut driver = Driver::deregistered(now);
    driver.changed(rejected(), now);
    driver.pace.started(now);
    assert_eq!((driver.is_expired(now), driver.due()), (true, None), "it has none yet");
    driver.own_slices = 2;
    assert!(driver.due().is_some_and(|due| due <= now + super::super::pace::INTERVAL));
    driver.wiped(now);
    assert_eq!((driver.is_expired(now), driver.due()), (false, Some(now + GRACE)), "they came back");
    driver.changed(rejected(), now + GRACE / 2);
    assert!(!driver.is_expired(now + GRACE / 2) && driver.is_expired(now + GRACE));
    assert!(!driver.is_forgotten(now + GRACE * 9), "it may publish again");
    driver.changed(PluginEvent::Registered(instance(1)), now);
    driver.changed(rejected(), now);
    assert!(!driver.is_expired(now + GRACE * 9), "the registered instance serves");
}

//! What the status task reports of volumes, in paused time.

use super::*;

fn names(volumes: &[&str]) -> BTreeSet<String> {
    volumes.iter().map(|volume| (*volume).to_owned()).collect()
}

fn in_use(node: &Node) -> Vec<String> {
    node.status.as_ref().and_then(|status| status.volumes_in_use.clone()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn volumes_in_use_are_reported_at_once_and_until_they_are_released() {
    let bed = Bed::registered(settings()).await;
    sleep(Duration::from_secs(3)).await;
    for volumes in [&["b", "a"][..], &["a"], &[]] {
        bed.volumes_in_use.send_replace(names(volumes));
        let expected: Vec<String> = names(volumes).into_iter().collect();
        assert!(bed.time_until(|node| in_use(node) == expected).await < Duration::from_millis(50));
        let mut reported = bed.reported_in_use.clone();
        let waited = timeout(Duration::from_millis(50), reported.wait_for(|all| *all == names(volumes)));
        waited.await.unwrap().unwrap();
    }
    let patches = bed.patches();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.patches(), patches, "only changes");
}

#[tokio::test(start_paused = true)]
async fn a_volume_counts_as_reported_only_once_the_server_has_it() {
    let bed = Bed::registered(settings()).await;
    bed.api.fail(ApiRule { times: 6, ..ApiRule::always("PATCH", "/status", ApiFault::Reset) });
    bed.volumes_in_use.send_replace(names(&["a"]));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(*bed.reported_in_use.borrow(), names(&[]));
    bed.until(|node| in_use(node) == ["a"]).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(*bed.reported_in_use.borrow(), names(&["a"]));
    // A status that removes it, whose response is lost.
    bed.api.fail(ApiRule { times: 6, ..ApiRule::always("PATCH", "/status", ApiFault::Hang) });
    bed.volumes_in_use.send_replace(names(&[]));
    sleep(Duration::from_millis(10)).await;
    bed.volumes_in_use.send_replace(names(&["a"]));
    assert_eq!(*bed.reported_in_use.borrow(), names(&[]), "perhaps it is removed");
    let mut reported = bed.reported_in_use.clone();
    timeout(Duration::from_secs(60), reported.wait_for(|all| all.contains("a"))).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_daemon_reported_and_released_is_removed() {
    let bed = Bed::new(settings());
    bed.volumes_in_use.send_replace(names(&["old"]));
    let existing = json!({"metadata": {"name": "node1"}, "status": {"volumesInUse": ["old", "older"]}});
    bed.api.put(PATH, &serde_json::from_value::<Node>(existing).unwrap());
    bed.find_addresses();
    bed.until(|node| in_use(node) == ["old"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_node_says_again_what_is_in_use() {
    let bed = Bed::registered(settings()).await;
    bed.volumes_in_use.send_replace(names(&["a"]));
    bed.until(|node| in_use(node) == ["a"]).await;
    bed.api.fail(ApiRule::always("POST", "/nodes", ApiFault::Reset));
    bed.api.delete(PATH, None);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(*bed.reported_in_use.borrow(), names(&[]));
    bed.api.heal();
    bed.until(|node| in_use(node) == ["a"]).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(*bed.reported_in_use.borrow(), names(&["a"]));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_ready_at_once_when_its_volumes_are() {
    let bed = Bed::new(settings());
    bed.storage.send_replace(Some("CSINode is not yet initialized".to_owned()));
    bed.find_addresses();
    bed.until(|node| message(node) == "CSINode is not yet initialized").await;
    bed.storage.send_replace(Some("failed to initialize CSINode: no".to_owned()));
    assert!(bed.time_until(|node| message(node).ends_with(": no")).await < Duration::from_millis(50));
    bed.storage.send_replace(None);
    assert!(bed.time_until(|node| ready(node) == "True").await < Duration::from_millis(50));
    assert_eq!(bed.reasons().last().map(String::as_str), Some("NodeReady"));
}

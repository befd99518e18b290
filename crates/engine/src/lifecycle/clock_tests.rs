//! The clock of the host is set by ten years while pods run, wait and terminate.

use std::time::Duration;

use hostlet_runtime::cri::fake::{Script, What};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep};

use super::testing::{Node, pod};
use hostlet_pod::AdmittedPod;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const TEN_YEARS: i64 = 3652 * 86_400;

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_the_time_that_passes() {
    for step in [TEN_YEARS, -TEN_YEARS] {
        let mut node = Node::new();
        let mut brief = Pod::clone(&pod("p", "u", &["a"]));
        brief.spec.as_mut().unwrap().active_deadline_seconds = Some(3600);
        node.want([AdmittedPod::new(brief)]);
        let began = Instant::now();
        node.until("it runs", MINUTE, |node| node.phase("u").as_deref() == Some("Running")).await;
        node.set_clock(step);
        sleep(10 * MINUTE).await;
        // Also while no daemon runs.
        node.sync_store();
        node.stop().await;
        node.set_clock(-2 * step);
        node.boot();
        sleep(40 * MINUTE).await;
        assert_eq!(node.phase("u").as_deref(), Some("Running"), "{step}");
        node.until("it is over", 15 * MINUTE, |node| node.phase("u").as_deref() == Some("Failed")).await;
        let took = began.elapsed();
        assert!(took >= 59 * MINUTE && took < 61 * MINUTE, "{step}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_waits_as_long_as_ever() {
    let mut node = Node::new();
    node.runtime.script("crash", Script::exits(SECOND, 1));
    node.want([pod("p", "u", &["crash"])]);
    for n in 0..60 {
        sleep(7 * SECOND).await;
        node.set_clock(if n % 2 == 0 { TEN_YEARS } else { -TEN_YEARS });
    }
    let history = node.runtime.history_after(0).into_iter();
    let starts: Vec<Instant> = history.filter(|h| h.what == What::Started).map(|h| h.at).collect();
    let pauses: Vec<u64> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs() - 1).collect();
    let expected = [0, 10, 20, 40, 80, 160];
    assert_eq!(pauses.len(), expected.len(), "{pauses:?}");
    // When exactly a container terminated is unknown if the clock was set just then.
    let is_right = |(pause, expected): (&u64, &u64)| (*expected..=*expected + 3).contains(pause);
    assert!(pauses.iter().zip(&expected).all(is_right), "{pauses:?}");
}

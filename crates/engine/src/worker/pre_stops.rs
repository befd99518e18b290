//! Which preStop hooks have begun. A hook runs once for each instance of a container: one that was cut short, because its pod's
//! grace period was shortened or the daemon died, is not run again. Stored before the hook runs. Runs no hook itself.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use hostlet_base::{ContainerId, Moment, PodUid};
use hostlet_store::{Store, Table};

/// The preStop hooks of one pod.
#[derive(Clone, Copy)]
pub(super) struct PreStops<'a> {
    pub(super) store: &'a Store,
    pub(super) pod: &'a PodUid,
}

/// A hook that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BegunHook {
    container: String,
    at: Timestamp,
    /// The host's uptime at that time: the clock may be set meanwhile, and no container outlives a boot. Earlier versions did not
    /// store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uptime_ms: Option<u64>,
}

impl BegunHook {
    fn elapsed(&self, now: Timestamp, uptime: Duration) -> Duration {
        match self.uptime_ms {
            Some(then) => uptime.saturating_sub(Duration::from_millis(then)),
            None => Moment::since(now, self.at),
        }
    }
}

impl PreStops<'_> {
    /// Records that the hook of this instance begins now. Returns once that would survive the daemon; if it has begun before,
    /// returns how long ago. `uptime` is the host's.
    pub(super) async fn begin(self, id: &ContainerId, now: Timestamp, uptime: Duration) -> Option<Duration> {
        let mut begun: Vec<BegunHook> =
            self.store.get(Table::PreStops, self.pod.as_str()).unwrap_or_default();
        if let Some(before) = begun.iter().find(|hook| hook.container == id.as_str()) {
            return Some(before.elapsed(now, uptime));
        }
        let uptime_ms = u64::try_from(uptime.as_millis()).ok();
        begun.push(BegunHook { container: id.to_string(), at: now, uptime_ms });
        // A pod whose containers are replaced again and again needs only the latest.
        let outdated = begun.len().saturating_sub(MOST);
        begun.drain(..outdated);
        self.store.put(Table::PreStops, self.pod.as_str(), &begun);
        self.store.written().await;
        None
    }
}

/// Hooks kept per pod: more than a pod has containers that stop at the same time.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_hook_begins_once_for_each_instance() {
        let (store, pod) = (Store::default(), PodUid::from("u"));
        let hooks = PreStops { store: &store, pod: &pod };
        assert_eq!(hooks.begin(&"a".into(), at(10), 5 * SECOND).await, None);
        assert_eq!(hooks.begin(&"b".into(), at(11), 6 * SECOND).await, None);
        assert_eq!(hooks.begin(&"a".into(), at(12), 7 * SECOND).await, Some(2 * SECOND));
        // The next daemon knows, too.
        let store = store.copy();
        let next = PreStops { store: &store, pod: &pod };
        assert_eq!(next.begin(&"b".into(), at(13), 8 * SECOND).await, Some(2 * SECOND));
        let other = PreStops { store: &store, pod: &"other".into() };
        assert_eq!(other.begin(&"a".into(), at(14), 9 * SECOND).await, None);
        for n in 0..200 {
            hooks.begin(&format!("n{n}").as_str().into(), at(20), 10 * SECOND).await;
        }
        let kept: Vec<BegunHook> = store.get(Table::PreStops, "u").unwrap();
        assert!(kept.len() <= MOST);
    }

    #[tokio::test]
    async fn a_clock_that_is_set_takes_nothing_of_the_grace_period() {
        const TEN_YEARS: i64 = 10 * 365 * 86_400;
        let (store, pod) = (Store::default(), PodUid::from("u"));
        let hooks = PreStops { store: &store, pod: &pod };
        assert_eq!(hooks.begin(&"a".into(), at(2 * TEN_YEARS), 5 * SECOND).await, None);
        for now in [TEN_YEARS, 3 * TEN_YEARS] {
            assert_eq!(hooks.begin(&"a".into(), at(now), 6 * SECOND).await, Some(SECOND));
        }
    }

    #[test]
    fn a_row_of_an_earlier_version_has_only_a_time() {
        let row = r#"{"container": "a", "at": "1970-01-01T00:00:10Z"}"#;
        let hook: BegunHook = serde_json::from_str(row).unwrap();
        assert_eq!(hook.elapsed(at(12), SECOND), 2 * SECOND);
        assert_eq!(hook.elapsed(at(9), SECOND), Duration::ZERO);
    }
}

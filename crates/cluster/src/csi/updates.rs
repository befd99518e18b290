//! Asks drivers from time to time how many volumes they have room for, as their CSIDriver objects want (upstream's `csiNodeUpdater`).

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::{sleep_until, watching};
use hostlet_csi::{DriverObjects, NodeInfos};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::refresh::{RefreshNodeInfo, period};

/// The task that asks them.
pub struct NodeInfoUpdates {
    /// What the drivers want.
    pub objects: DriverObjects,
    /// The registered drivers.
    pub drivers: watch::Receiver<NodeInfos>,
    /// Asks one.
    pub refresh: RefreshNodeInfo,
}

/// How often a driver is asked, and when next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Schedule {
    period: Duration,
    next: Instant,
}

impl NodeInfoUpdates {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: asking changes nothing.
            () = self.work() => {}
        }
    }

    async fn work(mut self) {
        let mut objects = self.objects.subscribe();
        let mut schedules = BTreeMap::new();
        loop {
            let now = Instant::now();
            let periods = {
                let (known, drivers) = (objects.borrow_and_update(), self.drivers.borrow_and_update());
                drivers.keys().filter_map(|driver| Some((driver.clone(), period(&known, driver)?))).collect()
            };
            reschedule(&mut schedules, &periods, now);
            for driver in due(&mut schedules, now) {
                // It is not asked twice at the same time: the drivers' room sees to that.
                (self.refresh)(&driver);
            }
            tokio::select! {
                // Cancel-safe, both: a watch marks its value seen only when it returns.
                () = watching::changed(&mut objects) => {}
                () = watching::changed(&mut self.drivers) => {}
                // Cancel-safe: a sleep.
                () = sleep_until(schedules.values().map(|schedule| schedule.next).min()) => {}
            }
        }
    }
}

/// Adds drivers, removes those that are not asked any more, and starts again those whose period changed.
fn reschedule(
    schedules: &mut BTreeMap<String, Schedule>,
    periods: &BTreeMap<String, Duration>,
    now: Instant,
) {
    schedules.retain(|driver, schedule| periods.get(driver) == Some(&schedule.period));
    for (driver, period) in periods {
        schedules.entry(driver.clone()).or_insert(Schedule { period: *period, next: now + *period });
    }
}

/// The drivers that are due now, which are due again after their period.
fn due(schedules: &mut BTreeMap<String, Schedule>, now: Instant) -> Vec<String> {
    let due = schedules.iter_mut().filter(|(_, schedule)| schedule.next <= now).map(|(driver, schedule)| {
        schedule.next = now + schedule.period;
        driver.clone()
    });
    due.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hostlet_csi::{KnownDrivers, NodeInfo};
    use k8s_openapi::api::storage::v1::CSIDriverSpec;
    use parking_lot::Mutex;
    use tokio::time::sleep;

    use super::*;

    fn known(periods: &[(&str, i64)]) -> KnownDrivers {
        let spec = |seconds| CSIDriverSpec {
            node_allocatable_update_period_seconds: Some(seconds),
            ..CSIDriverSpec::default()
        };
        let specs = periods.iter().map(|(name, seconds)| ((*name).into(), Arc::new(spec(*seconds))));
        KnownDrivers { specs: specs.collect(), is_listed: true }
    }

    fn registered(names: &[&str]) -> NodeInfos {
        names.iter().map(|name| ((*name).to_owned(), NodeInfo::default())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn registered_drivers_are_asked_at_their_own_period() {
        let objects = watch::Sender::new(known(&[("a", 60), ("short", 1), ("often", 10), ("absent", 10)]));
        let drivers = watch::Sender::new(registered(&["a", "short", "often", "without-object"]));
        let asked = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
        let log = asked.clone();
        let refresh: RefreshNodeInfo = Arc::new(move |driver: &str| {
            *log.lock().entry(driver.to_owned()).or_default() += 1;
        });
        let task = NodeInfoUpdates {
            objects: DriverObjects::new(objects.subscribe()),
            drivers: drivers.subscribe(),
            refresh,
        };
        let cancel = CancellationToken::new();
        let counts = || std::mem::take(&mut *asked.lock()).into_iter().collect::<Vec<_>>();
        let count = |name: &str, count| (name.to_owned(), count);
        let story = async {
            sleep(Duration::from_millis(600_500)).await;
            assert_eq!(counts(), [count("a", 10), count("often", 60), count("short", 60)]);
            objects.send_replace(known(&[("a", 300)]));
            sleep(Duration::from_secs(301)).await;
            assert_eq!(counts(), [count("a", 1)], "from the change on");
            drivers.send_replace(registered(&["without-object"]));
            sleep(Duration::from_secs(3600)).await;
            assert_eq!(counts(), []);
            cancel.cancel();
        };
        tokio::join!(task.run(cancel.clone()), story);
    }
}

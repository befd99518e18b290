//! What drivers said of their devices, and how long that holds. Pure: takes the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hostlet_proto::dra_health::{DeviceHealth, HealthStatus, NodeWatchResourcesResponse};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How long a report holds unless it says otherwise.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time that a report can hold: a clock cannot add just any number.
const MAX_TIMEOUT: u64 = 365 * 24 * 60 * 60;

/// Devices that are kept of a driver. Others are dropped, as upstream: nothing checks what a driver invents.
const MAX_DEVICES: usize = 16384;

/// The longest message of the API, and how a longer one ends.
const MAX_MESSAGE: usize = 1024;
const ELLIPSIS: &str = "...";

/// How a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Health {
    Healthy,
    Unhealthy,
    Unknown,
}

/// A driver's device: its pool and its name.
pub(crate) type DeviceId = (String, String);

/// What a driver said of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) health: Health,
    pub(crate) message: String,
    pub(crate) timeout: Duration,
}

/// A report and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) report: Report,
    pub(super) at: Instant,
}

impl Known {
    /// When it ends to hold.
    fn expires(&self) -> Instant {
        self.at + self.report.timeout
    }
}

/// The reports by driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) drivers: BTreeMap<String, BTreeMap<DeviceId, Known>>,
}

impl Cache {
    /// What is known of a device now; `None` if that is nothing.
    pub(super) fn get(&self, driver: &str, device: &DeviceId, now: Instant) -> Option<&Report> {
        let known = self.drivers.get(driver)?.get(device)?;
        (now <= known.expires()).then_some(&known.report)
    }

    /// Takes all reports of a driver. Returns the devices whose health is another one now, and how many devices were dropped.
    pub(super) fn update(
        &mut self,
        driver: &str,
        reports: BTreeMap<DeviceId, Report>,
        now: Instant,
    ) -> (BTreeSet<DeviceId>, usize) {
        let known = self.drivers.entry(driver.to_owned()).or_default();
        let (mut changed, mut dropped) = (BTreeSet::new(), 0);
        for (device, report) in reports {
            let old = known.get(&device);
            if old.is_none() && known.len() >= MAX_DEVICES {
                dropped += 1;
                continue;
            }
            if old.is_none_or(|old| old.report != report) {
                changed.insert(device.clone());
            }
            known.insert(device, Known { report, at: now });
        }
        (changed, dropped)
    }

    /// Forgets what does not hold anymore. Returns the devices whose health is unknown now and was not, by driver.
    pub(super) fn expire(&mut self, now: Instant) -> BTreeMap<String, BTreeSet<DeviceId>> {
        let mut changed: BTreeMap<String, BTreeSet<DeviceId>> = BTreeMap::new();
        for (driver, devices) in &mut self.drivers {
            devices.retain(|device, known| {
                let holds = now <= known.expires();
                if !holds && known.report.health != Health::Unknown {
                    changed.entry(driver.clone()).or_default().insert(device.clone());
                }
                holds
            });
        }
        changed
    }

    /// When something ends to hold.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let all = self.drivers.values().flat_map(BTreeMap::values);
        // A report holds at the very end of its time, too.
        all.map(|known| known.expires() + Duration::from_millis(1)).min()
    }

    /// A driver reports nothing anymore. Returns the devices that it had reported.
    pub(super) fn clear(&mut self, driver: &str) -> BTreeSet<DeviceId> {
        self.drivers.remove(driver).unwrap_or_default().into_keys().collect()
    }
}

/// The reports of a message.
pub(crate) fn reports(message: NodeWatchResourcesResponse) -> BTreeMap<DeviceId, Report> {
    let report = |device: DeviceHealth| {
        let health = match device.health() {
            HealthStatus::Healthy => Health::Healthy,
            HealthStatus::Unhealthy => Health::Unhealthy,
            HealthStatus::Unknown => Health::Unknown,
        };
        let timeout = match u64::try_from(device.health_check_timeout_seconds) {
            Ok(0) | Err(_) => DEFAULT_TIMEOUT,
            Ok(seconds) => Duration::from_secs(seconds.min(MAX_TIMEOUT)),
        };
        let message = shortened(device.message);
        let id = device.device.unwrap_or_default();
        ((id.pool_name, id.device_name), Report { health, message, timeout })
    };
    message.devices.into_iter().map(report).collect()
}

fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - ELLIPSIS.len()));
        message.push_str(ELLIPSIS);
    }
    message
}

#[cfg(test)]
mod tests {
    use hostlet_proto::dra_health::DeviceIdentifier;

    use super::*;

    fn report(health: Health) -> BTreeMap<DeviceId, Report> {
        let report = Report { health, message: String::new(), timeout: DEFAULT_TIMEOUT };
        BTreeMap::from([(("p".to_owned(), "d".to_owned()), report)])
    }

    #[test]
    fn a_report_holds_for_its_time() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let device = ("p".to_owned(), "d".to_owned());
        let changed =
            |health: Health, cache: &mut Cache, now| cache.update("gpu", report(health), now).0.len();
        assert_eq!(changed(Health::Healthy, &mut cache, now), 1);
        assert_eq!(changed(Health::Healthy, &mut cache, now), 0);
        assert_eq!(changed(Health::Unhealthy, &mut cache, now), 1);
        let later = now + DEFAULT_TIMEOUT;
        assert_eq!(cache.get("gpu", &device, later).unwrap().health, Health::Unhealthy);
        assert!(cache.expire(later).is_empty());
        let due = cache.next_expiry().unwrap();
        assert_eq!(cache.get("gpu", &device, due), None);
        assert_eq!(cache.expire(due)["gpu"].len(), 1);
        assert_eq!((cache.next_expiry(), cache.expire(due).len()), (None, 0));
        changed(Health::Unknown, &mut cache, due);
        assert!(cache.expire(due + DEFAULT_TIMEOUT * 2).is_empty(), "it was unknown before");
    }

    #[test]
    fn a_message_of_any_content_is_bounded() {
        let device = |name: &str, timeout: i64, health: i32| DeviceHealth {
            device: Some(DeviceIdentifier { pool_name: "p".to_owned(), device_name: name.to_owned() }),
            health,
            last_updated_time: i64::MIN,
            health_check_timeout_seconds: timeout,
            message: "ä".repeat(600),
        };
        let devices = vec![device("a", -1, 7), device("b", i64::MAX, 1), device("c", 5, 2)];
        let reports = reports(NodeWatchResourcesResponse { devices });
        let of = |name: &str| &reports[&("p".to_owned(), name.to_owned())];
        assert_eq!((of("a").health, of("a").timeout), (Health::Unknown, DEFAULT_TIMEOUT));
        assert_eq!((of("b").health, of("c").health), (Health::Healthy, Health::Unhealthy));
        assert!(of("a").message.len() <= MAX_MESSAGE && of("a").message.ends_with("ä..."));
        // No clock overflows.
        let mut cache = Cache::default();
        cache.update("gpu", reports.clone(), Instant::now());
        assert!(cache.next_expiry().is_some());
        let many = (0..MAX_DEVICES + 3).map(|n| ((String::new(), n.to_string()), of("c").clone()));
        assert_eq!(Cache::default().update("gpu", many.collect(), Instant::now()).1, 3);
    }
}

//! The content of `dra_health_state`, in upstream's format, so that the health of devices is known until the drivers of a new daemon
//! report it. Pure: takes the time.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::go_json;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::cache::{Cache, DEFAULT_TIMEOUT, Health, Known, Report};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DriverRow {
    #[serde(default)]
    devices: BTreeMap<String, DeviceRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeviceRow {
    pool_name: String,
    device_name: String,
    health: Health,
    last_updated: Timestamp,
    /// Nanoseconds.
    #[serde(default)]
    health_check_timeout: u64,
    #[serde(default)]
    message: String,
}

pub(super) fn encode(cache: &Cache, now: Instant, clock: Timestamp) -> Result<String, serde_json::Error> {
    let row = |((pool, device), known): (&(String, String), &Known)| {
        let age = SignedDuration::try_from(now.saturating_duration_since(known.at)).unwrap_or_default();
        let row = DeviceRow {
            pool_name: pool.clone(),
            device_name: device.clone(),
            health: known.report.health,
            last_updated: clock.checked_sub(age).unwrap_or(clock),
            health_check_timeout: u64::try_from(known.report.timeout.as_nanos()).unwrap_or_default(),
            message: known.report.message.clone(),
        };
        (format!("{pool}/{device}"), row)
    };
    let driver = |(name, devices): (&String, &BTreeMap<_, _>)| {
        (name.clone(), DriverRow { devices: devices.iter().map(row).collect() })
    };
    go_json(&cache.drivers.iter().map(driver).collect::<BTreeMap<_, _>>())
}

pub(super) fn decode(content: &[u8], now: Instant, clock: Timestamp) -> Result<Cache, serde_json::Error> {
    let rows: BTreeMap<String, DriverRow> = serde_json::from_slice(content)?;
    let known = |row: DeviceRow| {
        let age = Duration::try_from(clock.duration_since(row.last_updated)).unwrap_or_default();
        let timeout = match row.health_check_timeout {
            0 => DEFAULT_TIMEOUT,
            nanoseconds => Duration::from_nanos(nanoseconds),
        };
        let report = Report { health: row.health, message: row.message, timeout };
        // Older than the host's clock: it does not hold anymore.
        let at = now.checked_sub(age).filter(|_| age <= timeout)?;
        Some(((row.pool_name, row.device_name), Known { report, at }))
    };
    let driver = |(name, row): (String, DriverRow)| {
        (name, row.devices.into_values().filter_map(known).collect::<BTreeMap<_, _>>())
    };
    Ok(Cache { drivers: rows.into_iter().map(driver).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by the Go types of the stock kubelet 1.37.2.
    const UPSTREAM: &str = r#"{"gpu.example.com":{"Devices":{"p/d":{"PoolName":"p","DeviceName":"d","Health":"Unhealthy","LastUpdated":"2026-11-28T10:00:00.5Z","HealthCheckTimeout":30000000000,"Message":"hot"}}}}"#;

    #[tokio::test(start_paused = true)]
    async fn upstreams_file_is_read_and_written() {
        let now = Instant::now() + Duration::from_secs(60);
        let clock: Timestamp = "2026-11-28T10:00:10.5Z".parse().unwrap();
        let cache = decode(UPSTREAM.as_bytes(), now, clock).unwrap();
        let device = ("p".to_owned(), "d".to_owned());
        let report = cache.get("gpu.example.com", &device, now).unwrap();
        assert_eq!((report.health, report.message.as_str()), (Health::Unhealthy, "hot"));
        assert_eq!(cache.get("gpu.example.com", &device, now + Duration::from_secs(21)), None);
        assert_eq!(encode(&cache, now, clock).unwrap(), UPSTREAM);
        // It holds no longer after a long pause, whatever the clock says.
        let much_later = clock.checked_add(SignedDuration::from_hours(1_000_000)).unwrap();
        assert_eq!(decode(UPSTREAM.as_bytes(), now, much_later).unwrap().next_expiry(), None);
        assert!(decode(b"[]", now, clock).is_err());
    }
}

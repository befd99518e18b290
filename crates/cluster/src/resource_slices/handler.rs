//! Learns of plugins of the type `DRAPlugin`: accepts drivers that report their devices to the kubelet, and reports what is known about
//! all of them. Another handler accepts those that only prepare claims.

use std::path::Path;

use hostlet_base::WallClock;
use hostlet_plugins::{PluginEvent, PluginHandler, PluginRejected};
use hostlet_telemetry::{Metrics, Reading};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::driver::{Driver, Link};
use super::legal::{DOMAIN_MAX, is_domain};
use super::metrics::WriteMetrics;
use super::reporting::reports_devices;
use super::shared::{Publishing, Shared};

/// The DRA drivers of this node. Clones share one state.
#[derive(Clone, Debug)]
pub struct Dra {
    pub(super) shared: Shared,
    pub(super) clock: WallClock,
    pub(super) writes: WriteMetrics,
}

/// What `hostlet plugins` shows about a driver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DriverReport {
    /// `On`, `Off`, or `Unavailable`.
    publishing: &'static str,
    /// `Closed`, `Connecting`, `Open`, `Waiting`, `Ended`, or `Unsupported`.
    stream: &'static str,
    last_message: Option<Timestamp>,
    devices: Option<usize>,
    slices: usize,
    problems: Vec<String>,
    last_error: Option<String>,
    next_retry: Option<Timestamp>,
}

impl Dra {
    /// Without any driver yet.
    pub fn new(clock: WallClock) -> Self {
        Self { shared: Shared::default(), clock, writes: WriteMetrics::default() }
    }

    /// Registers the metrics.
    pub fn register(&self, metrics: &Metrics) {
        self.writes.register(metrics);
        let read = |shared: Shared, value: fn(&Driver) -> usize| {
            let reading = move |(name, driver): (&String, &Driver)| -> Reading {
                (vec![("driver_name", name.clone())], value(driver) as u64)
            };
            move || shared.with(|state| state.drivers.iter().map(reading).collect())
        };
        metrics.register_gauge(
            "hostlet_dra_devices",
            "Devices that a driver reported last.",
            read(self.shared.clone(), |driver| {
                driver.inventory().map_or(0, |inventory| inventory.devices.len())
            }),
        );
        metrics.register_gauge(
            "hostlet_dra_resource_slices",
            "ResourceSlices of a driver that hostlet published.",
            read(self.shared.clone(), |driver| driver.slices),
        );
        metrics.register_gauge(
            "hostlet_dra_problems",
            "Parts of a driver's last message that cannot be published.",
            read(self.shared.clone(), |driver| {
                let problems = driver.inventory().map_or(0, |inventory| inventory.problems.total());
                problems + driver.left_out.total()
            }),
        );
    }

    fn report(&self, driver: &Driver, publishing: Publishing) -> DriverReport {
        let retry = match &driver.link {
            Link::Waiting(until) | Link::Ended(until) => Some(*until),
            Link::Closed | Link::Connecting | Link::Open | Link::Unsupported => None,
        };
        let retry = retry.or_else(|| driver.publish_error.as_ref().and_then(|_| driver.pace.due()));
        let (now, clock) = (Instant::now(), self.clock.now());
        let moment = |moment: Instant| {
            let left = SignedDuration::try_from(moment.saturating_duration_since(now)).unwrap_or_default();
            clock.checked_add(left).unwrap_or(clock)
        };
        let mut problems = driver.inventory().map(|inventory| inventory.problems.clone()).unwrap_or_default();
        problems.extend(driver.left_out.clone());
        DriverReport {
            publishing: publishing.as_str(),
            stream: match &driver.link {
                Link::Closed => "Closed",
                Link::Connecting => "Connecting",
                Link::Open => "Open",
                Link::Waiting(_) => "Waiting",
                Link::Ended(_) => "Ended",
                Link::Unsupported => "Unsupported",
            },
            last_message: driver.said_at,
            devices: driver.inventory().map(|inventory| inventory.devices.len()),
            slices: driver.slices,
            problems: problems.lines(),
            last_error: driver.stream_error.clone().or_else(|| driver.publish_error.clone()),
            next_retry: retry.map(moment),
        }
    }
}

impl PluginHandler for Dra {
    fn plugin_type(&self) -> &'static str {
        "DRAPlugin"
    }

    fn validate(&self, name: &str, _: &Path, versions: &[String]) -> Result<(), PluginRejected> {
        if !is_domain(name) {
            return Err(PluginRejected(format!(
                "the name of a DRA driver must be a DNS subdomain of at most {DOMAIN_MAX} characters, such as gpu.example.com"
            )));
        }
        if versions.iter().any(|version| reports_devices(version)) {
            return Ok(());
        }
        let supported = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
        Err(PluginRejected(format!(
            "supported versions: {supported}; these are not versions of a DRA driver that hostlet knows. At least one must be \
             v1.DRAPlugin or v1beta1.DRAPlugin, of a driver that prepares claims, or v1alpha3.Node or a version 1.x, of a driver that \
             reports its devices to the kubelet"
        )))
    }

    fn changed(&self, event: PluginEvent) {
        let now = Instant::now();
        let name = match &event {
            PluginEvent::Registered(instance)
            | PluginEvent::Deregistered(instance)
            | PluginEvent::Disconnected(instance)
            | PluginEvent::Connected(instance) => instance.name.clone(),
            PluginEvent::Rejected { name } => name.clone(),
        };
        if !is_domain(&name) {
            // No slice can be its.
            return;
        }
        self.shared.with(|state| {
            let driver = state.drivers.entry(name.clone()).or_insert_with(|| Driver::deregistered(now));
            driver.changed(event, now);
            if driver.serving().is_none() && !state.has_reconciler {
                // Nobody looks for slices that must be deleted later.
                state.drivers.remove(&name);
            }
        });
        self.shared.registered.notify_one();
        self.shared.due.notify_one();
    }

    fn describe(&self, name: &str) -> Option<Value> {
        let report = self
            .shared
            .with(|state| state.drivers.get(name).map(|driver| self.report(driver, state.publishing)));
        serde_json::to_value(report?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(name: &str, versions: &[&str]) -> Result<(), String> {
        let versions: Vec<String> = versions.iter().map(|version| (*version).to_owned()).collect();
        let dra = Dra::new(WallClock::system());
        dra.validate(name, Path::new("/d.sock"), &versions).map_err(|error| error.to_string())
    }

    #[test]
    fn drivers_that_report_devices_are_accepted() {
        let old =
            [&["1.0.0"][..], &["v1.0.0"], &["1.1"], &["v1alpha3.Node"], &["1.0.0", "v1beta1.DRAPlugin"]];
        for versions in old {
            assert_eq!(validate("gpu.example.com", versions), Ok(()), "{versions:?}");
        }
        for versions in [
            &[][..],
            &["v1alpha4.Node"],
            &["2.0.0"],
            &["0.1.0"],
            &["v1.Else"],
            &["1"],
            &["1.0.0.0"],
            &["1.x"],
        ] {
            let error = validate("gpu.example.com", versions).unwrap_err();
            assert!(error.contains("v1alpha3.Node") && error.contains("v1.DRAPlugin"), "{error}");
        }
        for name in ["", "a b", "../x", &"a".repeat(64)] {
            assert!(validate(name, &["1.0.0"]).unwrap_err().contains("DNS subdomain"), "{name}");
        }
    }

    #[test]
    fn without_a_cluster_nothing_is_remembered_of_drivers_that_are_gone() {
        let dra = Dra::new(WallClock::system());
        dra.changed(PluginEvent::Rejected { name: "gpu.example.com".to_owned() });
        dra.changed(PluginEvent::Rejected { name: "not a domain".to_owned() });
        assert_eq!(dra.shared.with(|state| state.drivers.len()), 0);
    }
}

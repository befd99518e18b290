//! Slices, managed by systemd over D-Bus: on a systemd host it owns the tree and would undo direct changes. Starts, configures
//! and stops slices; does not write files.
//!
//! cgroups-rs provides the names and common properties of units. Its client is not used: it refuses to start a unit without
//! processes, as a slice is, and does not wait for systemd's jobs. Its slice properties are used only in part: it sends
//! `Wants` as a string where systemd accepts only a list.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use cgroups_rs::systemd::props::PropertiesBuilder;
use cgroups_rs::systemd::{
    CPU_QUOTA_PER_SEC_US, CPU_QUOTA_PERIOD_US, CPU_SHARES, CPU_WEIGHT, MEMORY_LIMIT, MEMORY_MAX,
    NO_SUCH_UNIT, Property, TASKS_MAX, UNIT_MODE_REPLACE, WANTS,
};
use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, Proxy};
use zbus::zvariant::{OwnedObjectPath, Value};

use super::controllers::ControllerSetting;
use super::shares::cpu_weight;
use super::{CgroupError, CgroupVersion};

/// Exists if systemd is init (sd_booted(3)).
pub(super) const BOOTED_MARKER: &str = "/run/systemd/system";

/// Whether systemd is init, see sd_booted(3).
pub fn systemd_is_init() -> bool {
    Path::new(BOOTED_MARKER).is_dir()
}

const SERVICE: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";

/// As long as runc waits.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// systemd stores quotas as whole percentages of a core: multiples of this many microseconds per second.
const QUOTA_STEP_MICROS: u64 = 10_000;
const MICROS_PER_SECOND: u64 = 1_000_000;
/// systemd's value for no limit.
const INFINITY: u64 = u64::MAX;

/// Fails unless systemd is this host's init.
pub(super) fn require_booted(marker: &Path) -> Result<(), CgroupError> {
    if marker.is_dir() { Ok(()) } else { Err(CgroupError::NoSystemd { marker: marker.to_owned() }) }
}

/// A connection to systemd for the duration of one operation, so that restarts of the bus need no handling.
pub(super) struct Slices {
    connection: Connection,
}

impl Slices {
    /// Connects over the system bus.
    pub(super) fn connect() -> Result<Self, CgroupError> {
        let connection = Builder::system().and_then(|builder| builder.method_timeout(TIMEOUT).build());
        connection
            .map(|connection| Self { connection })
            .map_err(failed("connect to the system bus for", SERVICE))
    }

    /// Starts a slice and waits until it is active. An existing one stays unchanged.
    pub(super) fn start(&self, slice: &str, parent: &str) -> Result<(), CgroupError> {
        let properties = slice_properties(slice, parent);
        let no_units: Vec<(&str, Vec<(&str, Value<'_>)>)> = Vec::new();
        let request = (slice, UNIT_MODE_REPLACE, properties, no_units);
        match self.manager().and_then(|manager| manager.call_method("StartTransientUnit", &request)) {
            Err(error) if is_method_error(&error, UNIT_EXISTS) => return Ok(()),
            started => started.map_err(failed("start", slice))?,
        };
        self.wait_for(slice, "active")
    }

    /// Sets properties until the slice stops.
    pub(super) fn set(&self, slice: &str, properties: &[Property<'_>]) -> Result<(), CgroupError> {
        let runtime_only = true;
        self.manager()
            .and_then(|manager| manager.call_method("SetUnitProperties", &(slice, runtime_only, properties)))
            .map(drop)
            .map_err(failed("set properties of", slice))
    }

    /// Stops a slice, which removes its cgroups, and waits until it is inactive. Succeeds if it does not exist.
    pub(super) fn stop(&self, slice: &str) -> Result<(), CgroupError> {
        match self.manager().and_then(|manager| manager.call_method("StopUnit", &(slice, UNIT_MODE_REPLACE)))
        {
            Err(error) if is_method_error(&error, NO_SUCH_UNIT) => return Ok(()),
            stopped => stopped.map_err(failed("stop", slice))?,
        };
        self.wait_for(slice, "inactive")
    }

    fn wait_for(&self, slice: &str, expected: &'static str) -> Result<(), CgroupError> {
        let polls = TIMEOUT.as_millis() / POLL.as_millis();
        let mut state = self.state(slice)?;
        for _ in 0..polls {
            if state == expected {
                return Ok(());
            }
            thread::sleep(POLL);
            state = self.state(slice)?;
        }
        Err(CgroupError::UnitState { unit: slice.into(), state, expected, waited_seconds: TIMEOUT.as_secs() })
    }

    /// The unit's `ActiveState`; a unit that systemd has unloaded is inactive.
    fn state(&self, slice: &str) -> Result<String, CgroupError> {
        let read = || -> zbus::Result<String> {
            let path: OwnedObjectPath = self.manager()?.call("GetUnit", &(slice,))?;
            Proxy::new(&self.connection, SERVICE, path, UNIT)?.get_property("ActiveState")
        };
        match read() {
            Err(error) if is_method_error(&error, NO_SUCH_UNIT) => Ok("inactive".into()),
            state => state.map_err(failed("read the state of", slice)),
        }
    }

    fn manager(&self) -> zbus::Result<Proxy<'_>> {
        Proxy::new(&self.connection, SERVICE, MANAGER_PATH, MANAGER)
    }
}

/// The properties with which runc starts a slice: all accounting enabled, so that systemd delegates the controllers.
fn slice_properties(slice: &str, parent: &str) -> Vec<Property<'static>> {
    let mut properties = PropertiesBuilder::default()
        .description(format!("Kubernetes pods, {slice}"))
        .cpu_accounting(true)
        .memory_accounting(true)
        .task_accounting(true)
        .io_accounting(true)
        .default_dependencies(false)
        .build();
    properties.push((WANTS, Value::from(vec![parent.to_owned()])));
    properties
}

fn failed<'a>(operation: &'static str, unit: &'a str) -> impl FnOnce(zbus::Error) -> CgroupError + 'a {
    move |source| CgroupError::Systemd { operation, unit: unit.to_owned(), source: Box::new(source) }
}

fn is_method_error(error: &zbus::Error, expected: &str) -> bool {
    matches!(error, zbus::Error::MethodError(name, _, _) if name.as_str() == expected)
}

/// A setting rounded up to what systemd can store, so that file and property are equal.
pub(super) fn rounded(setting: ControllerSetting) -> ControllerSetting {
    match setting {
        ControllerSetting::CpuQuota(Some(quota), period) if period > 0 => {
            let micros = per_second(quota, period).saturating_mul(period) / MICROS_PER_SECOND;
            ControllerSetting::CpuQuota(Some(i64::try_from(micros).unwrap_or(i64::MAX)), period)
        }
        ControllerSetting::CpuShares(_)
        | ControllerSetting::CpuQuota(..)
        | ControllerSetting::Memory(_)
        | ControllerSetting::MemoryMin(_)
        | ControllerSetting::MemoryLow(_)
        | ControllerSetting::MemoryHigh(_)
        | ControllerSetting::Pids(_)
        | ControllerSetting::HugePages { .. } => setting,
    }
}

/// The unit properties of these controller settings (systemd.resource-control(5)).
pub(super) fn properties(
    version: CgroupVersion,
    controller_settings: &[ControllerSetting],
) -> Vec<Property<'static>> {
    let mut properties: Vec<Property<'static>> = Vec::new();
    let mut add = |name: &'static str, value: u64| properties.push((name, Value::U64(value)));
    for setting in controller_settings {
        match (*setting, version) {
            (ControllerSetting::CpuShares(shares), CgroupVersion::V1) => add(CPU_SHARES, shares),
            (ControllerSetting::CpuShares(shares), CgroupVersion::V2) => add(CPU_WEIGHT, cpu_weight(shares)),
            (ControllerSetting::CpuQuota(quota, period), CgroupVersion::V1 | CgroupVersion::V2) => {
                add(CPU_QUOTA_PERIOD_US, period);
                add(CPU_QUOTA_PER_SEC_US, quota.map_or(INFINITY, |quota| per_second(quota, period)));
            }
            (ControllerSetting::Memory(limit), CgroupVersion::V1) => add(MEMORY_LIMIT, bytes(limit)),
            (ControllerSetting::Memory(limit), CgroupVersion::V2) => add(MEMORY_MAX, bytes(limit)),
            (ControllerSetting::MemoryMin(min), CgroupVersion::V2) => add("MemoryMin", bytes(Some(min))),
            (ControllerSetting::MemoryLow(low), CgroupVersion::V2) => add("MemoryLow", bytes(Some(low))),
            (ControllerSetting::MemoryHigh(high), CgroupVersion::V2) => add("MemoryHigh", bytes(high)),
            // Not on this version, and not known to systemd.
            (
                ControllerSetting::MemoryMin(_)
                | ControllerSetting::MemoryLow(_)
                | ControllerSetting::MemoryHigh(_),
                CgroupVersion::V1,
            )
            | (ControllerSetting::HugePages { .. }, CgroupVersion::V1 | CgroupVersion::V2) => {}
            (ControllerSetting::Pids(limit), CgroupVersion::V1 | CgroupVersion::V2) => {
                add(TASKS_MAX, bytes(Some(limit)))
            }
        }
    }
    properties
}

/// The property for the CPUs that a unit may use, which systemd has since version 244: a bit for each, the first CPU in the lowest bit
/// of the first byte.
pub(super) fn allowed_cpus(cpus: &BTreeSet<u32>) -> Property<'static> {
    let highest = cpus.last().copied().unwrap_or_default() as usize;
    let mut mask = vec![0_u8; highest / 8 + 1];
    for cpu in cpus {
        mask[*cpu as usize / 8] |= 1 << (cpu % 8);
    }
    ("AllowedCPUs", Value::from(mask))
}

fn bytes(limit: Option<i64>) -> u64 {
    limit.map_or(INFINITY, |limit| u64::try_from(limit).unwrap_or(INFINITY))
}

/// Microseconds of CPU time per second, rounded up to a step.
fn per_second(quota: i64, period: u64) -> u64 {
    let quota = u64::try_from(quota).unwrap_or(0);
    let exact = quota.saturating_mul(MICROS_PER_SECOND) / period.max(1);
    exact.div_ceil(QUOTA_STEP_MICROS).saturating_mul(QUOTA_STEP_MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(properties: &[Property<'_>]) -> Vec<(String, u64)> {
        properties.iter().map(|(name, value)| ((*name).to_owned(), u64::try_from(value).unwrap())).collect()
    }

    #[test]
    fn settings_of_a_limited_pod_become_properties() {
        let controller_settings = [
            ControllerSetting::CpuShares(1024),
            ControllerSetting::CpuQuota(Some(50_000), 100_000),
            ControllerSetting::Memory(Some(4096)),
            ControllerSetting::Pids(9),
            ControllerSetting::HugePages { size: 2 << 20, limit: 0 },
        ];
        let v2 = [
            ("CPUWeight", 39),
            ("CPUQuotaPeriodUSec", 100_000),
            ("CPUQuotaPerSecUSec", 500_000),
            ("MemoryMax", 4096),
            ("TasksMax", 9),
        ];
        let v1 = [("CPUShares", 1024), v2[1], v2[2], ("MemoryLimit", 4096), v2[4]];
        let owned = |list: [(&str, u64); 5]| list.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(plain(&properties(CgroupVersion::V2, &controller_settings)), owned(v2));
        assert_eq!(plain(&properties(CgroupVersion::V1, &controller_settings)), owned(v1));
    }

    #[test]
    fn no_limit_is_infinity() {
        let memory = [
            ControllerSetting::MemoryMin(5),
            ControllerSetting::MemoryLow(6),
            ControllerSetting::MemoryHigh(None),
        ];
        assert_eq!(properties(CgroupVersion::V1, &memory), []);
        let expected = [("MemoryMin", 5), ("MemoryLow", 6), ("MemoryHigh", u64::MAX)];
        assert_eq!(
            plain(&properties(CgroupVersion::V2, &memory)),
            expected.map(|(name, value)| (name.to_owned(), value))
        );
        let found = plain(&properties(
            CgroupVersion::V2,
            &[ControllerSetting::CpuQuota(None, 100_000), ControllerSetting::Memory(None)],
        ));
        assert_eq!(found[1], ("CPUQuotaPerSecUSec".to_owned(), u64::MAX));
        assert_eq!(found[2], ("MemoryMax".to_owned(), u64::MAX));
    }

    #[test]
    fn cpus_are_bits_from_the_lowest() {
        let mask =
            |cpus: &[u32]| Vec::<u8>::try_from(allowed_cpus(&cpus.iter().copied().collect()).1).unwrap();
        assert_eq!(mask(&[0, 1, 2, 3]), [0b1111]);
        assert_eq!(mask(&[1, 8, 17]), [0b10, 1, 0b10]);
    }

    #[test]
    fn quotas_round_up_to_a_percent() {
        assert_eq!(
            rounded(ControllerSetting::CpuQuota(Some(1500), 100_000)),
            ControllerSetting::CpuQuota(Some(2000), 100_000)
        );
        assert_eq!(
            rounded(ControllerSetting::CpuQuota(Some(2000), 100_000)),
            ControllerSetting::CpuQuota(Some(2000), 100_000)
        );
        assert_eq!(
            rounded(ControllerSetting::CpuQuota(None, 100_000)),
            ControllerSetting::CpuQuota(None, 100_000)
        );
        assert_eq!(rounded(ControllerSetting::Memory(Some(1500))), ControllerSetting::Memory(Some(1500)));
    }

    #[test]
    fn without_systemd_the_error_names_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        require_booted(dir.path()).unwrap();
        let message = require_booted(&dir.path().join("none")).unwrap_err().to_string();
        assert!(message.contains("cgroupDriver cgroupfs"), "{message}");
    }
}

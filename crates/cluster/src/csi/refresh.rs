//! How a driver is asked again what it says of this node.

use std::sync::Arc;
use std::time::Duration;

use hostlet_csi::KnownDrivers;

/// Requests that a driver, by its name, is asked again (CSI `NodeGetInfo`). Returns at once; the answer is among those of all registered
/// drivers later.
pub type RefreshNodeInfo = Arc<dyn Fn(&str) + Send + Sync>;

/// Shortest interval at which a driver is asked; the API server accepts no shorter one.
const MIN_PERIOD: Duration = Duration::from_secs(10);

/// How often a driver is asked (`nodeAllocatableUpdatePeriodSeconds` of its CSIDriver object); `None` for never.
pub(super) fn period(known: &KnownDrivers, driver: &str) -> Option<Duration> {
    let seconds = known.specs.get(driver)?.node_allocatable_update_period_seconds?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).max(MIN_PERIOD))
}

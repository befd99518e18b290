//! How a driver is asked again what it says of this node.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hostlet_csi::{CallError, KnownDrivers};

/// Asks a driver (CSI `NodeGetInfo`), by its name, and publishes the answer among those of all registered drivers.
pub type RefreshNodeInfo = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// Shortest interval at which a driver is asked; the API server accepts no shorter one.
const MIN_PERIOD: Duration = Duration::from_secs(10);

/// How often a driver is asked (`nodeAllocatableUpdatePeriodSeconds` of its CSIDriver object); `None` for never.
pub(super) fn period(known: &KnownDrivers, driver: &str) -> Option<Duration> {
    let seconds = known.specs.get(driver)?.node_allocatable_update_period_seconds?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).max(MIN_PERIOD))
}

//! The seam to the CSI drivers, which know how full their volumes are. Owns no behavior.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use hostlet_host::{FilesystemUsage, SpaceUsage};
use hostlet_pod::DriverVolume;

/// A driver did not say how full a volume is. The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DriverStatsError(pub String);

/// What a driver says of a volume.
pub type DriverAnswer = Result<(SpaceUsage, FilesystemUsage), DriverStatsError>;

/// Asks a driver how full a volume is, which it published at this path. `None` if the driver does not know: it has no `GET_VOLUME_STATS`, or
/// is not there. Has a deadline of its own.
pub type DriverStats =
    Arc<dyn Fn(DriverVolume, PathBuf) -> BoxFuture<'static, Option<DriverAnswer>> + Send + Sync>;

/// Of a host without drivers.
#[cfg(any(test, feature = "fakes"))]
pub fn no_drivers() -> DriverStats {
    Arc::new(|_, _| Box::pin(std::future::ready(None)))
}

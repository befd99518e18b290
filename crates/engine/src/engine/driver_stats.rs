//! How full the volumes of CSI drivers are: what the drivers say, as the measurements of storage take it. Measures nothing.

use std::sync::Arc;

use hostlet_csi::{CsiVolumes, Usage, UsageUnit, VolumeId, VolumeStats};
use hostlet_host::{FilesystemUsage, SpaceUsage};
use hostlet_observe::stats::{DriverAnswer, DriverStats, DriverStatsError};
use hostlet_pod::DriverVolume;

/// Asks the drivers of these volumes.
pub(super) fn driver_stats(volumes: CsiVolumes) -> DriverStats {
    Arc::new(move |volume, path| {
        let volumes = volumes.clone();
        Box::pin(async move {
            let DriverVolume { driver, handle, .. } = volume;
            let id = VolumeId { driver: driver.as_ref().to_owned(), handle };
            let answer = volumes.stats(&id, &path).await?;
            Some(answer.map_err(|error| DriverStatsError(error.to_string())).and_then(|stats| usage(&stats)))
        })
    })
}

/// What a driver says in no unit is zero, as upstream.
fn usage(stats: &VolumeStats) -> DriverAnswer {
    if stats.usage.is_empty() {
        let text = "failed to get usage from response. usage is nil";
        return Err(DriverStatsError(text.to_owned()));
    }
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    let (mut space, mut filesystem) = (SpaceUsage::default(), FilesystemUsage::default());
    for Usage { unit, available, total, used } in &stats.usage {
        match unit {
            UsageUnit::Bytes => {
                (filesystem.capacity, filesystem.available) = (number(*total), number(*available));
                (filesystem.used, space.bytes) = (number(*used), number(*used));
            }
            UsageUnit::Inodes => {
                (filesystem.inodes, filesystem.inodes_free) = (number(*total), number(*available));
                space.inodes = number(*used);
            }
        }
    }
    Ok((space, filesystem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_figures_are_a_filesystems() {
        let of = |unit, available, total, used| Usage { unit, available, total, used };
        let bytes = of(UsageUnit::Bytes, 60, 100, 30);
        let (space, filesystem) =
            usage(&VolumeStats { usage: vec![bytes, of(UsageUnit::Inodes, 7, 10, 3)] }).unwrap();
        assert_eq!((space.bytes, space.inodes), (30, 3));
        assert_eq!((filesystem.capacity, filesystem.available, filesystem.used), (100, 60, 30));
        assert_eq!((filesystem.inodes, filesystem.inodes_free), (10, 7));
        // A device has no inodes, and some drivers do not know all.
        let (space, filesystem) =
            usage(&VolumeStats { usage: vec![of(UsageUnit::Bytes, -1, 100, 0)] }).unwrap();
        assert_eq!((space.inodes, filesystem.capacity, filesystem.available), (0, 100, 0));
        assert!(usage(&VolumeStats::default()).is_err());
    }
}

//! The filesystem of the images: where the runtime says that it is, and how full it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_host::{FilesystemUsage, SysError, file_work};
use hostlet_runtime::cri::ImageService;

use super::error::GcError;

/// Measures the filesystem of a path; blocking. The host's is `hostlet_host::filesystem_usage`.
pub type MeasureFilesystem = Arc<dyn Fn(&Path) -> Result<FilesystemUsage, SysError> + Send + Sync>;

/// The filesystem of the images. With a split image filesystem, containers' writable layers are on another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDisk {
    /// A path on it.
    pub path: PathBuf,
    /// What images, and writable layers that are on it, take by the runtime's measurement, bytes.
    pub images: u64,
    /// Its size, bytes; never 0.
    pub capacity: u64,
    /// What can still be written, bytes; at most its size.
    pub available: u64,
}

impl ImageDisk {
    /// Finds and measures it. As upstream, only the first filesystem that the runtime names counts.
    pub(super) async fn measure(
        images: &dyn ImageService,
        measure: &MeasureFilesystem,
    ) -> Result<Self, GcError> {
        let filesystems = images.image_filesystems().await.map_err(GcError::Filesystems)?;
        let first = filesystems.into_iter().next().ok_or(GcError::NoFilesystem)?;
        let FilesystemUsage { capacity, available, .. } = usage(&first.path, measure).await?;
        if capacity == 0 {
            return Err(GcError::NoCapacity { path: first.path });
        }
        Ok(Self { path: first.path, images: first.bytes, capacity, available: available.min(capacity) })
    }

    /// Measures again what can be written; `None` if that failed, which the next measurement reports.
    pub(super) async fn available_now(&self, measure: &MeasureFilesystem) -> Option<u64> {
        usage(&self.path, measure).await.ok().map(|usage| usage.available)
    }

    /// How full it is, percent, rounded as upstream.
    pub fn used_percent(&self) -> u64 {
        100 - share(self.available, 100, self.capacity)
    }

    /// What is not available, bytes.
    pub fn used(&self) -> u64 {
        self.capacity.saturating_sub(self.available)
    }

    /// What is available once this many percent are used, bytes.
    pub(super) fn available_at(&self, used_percent: u8) -> u64 {
        share(self.capacity, 100 - u64::from(used_percent.min(100)), 100)
    }
}

/// `number * part / whole`, without overflow.
fn share(number: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(number) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

async fn usage(path: &Path, measure: &MeasureFilesystem) -> Result<FilesystemUsage, GcError> {
    let (path, measure) = (path.to_owned(), measure.clone());
    let measured = file_work(move || measure(&path)).await.map_err(GcError::Panicked)?;
    measured.map_err(GcError::Measure)
}

//! Objects of the API server that pods refer to: follows ConfigMaps, Secrets and claims on request, all Services, RuntimeClasses and
//! CSIDriver objects, and requests tokens, its only writes. Knows of pods only what `offline` needs: which objects are in use.

mod binding;
mod cache;
mod claims;
mod csi_drivers;
mod objects;
mod offline;
mod read;
mod runtime_classes;
mod services;

pub use cache::{CacheTask, Cached};
pub use csi_drivers::cached_csi_drivers;
pub use objects::{ApiObjects, ObjectsTask};
pub use offline::{CopySubject, OfflineObjects, OfflineObjectsTask, OfflineUsers, ServedCopy};
pub use runtime_classes::cached_runtime_classes;
pub use services::cached_services;

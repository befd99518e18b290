//! Objects of the API server that pods refer to: follows ConfigMaps, Secrets, claims of volumes and trust bundles on request, all
//! Services, RuntimeClasses and CSIDriver objects, reads ResourceClaims, and requests tokens and certificates, its only writes. Knows of pods only what `offline` needs:
//! which objects are in use.

mod answered;
mod binding;
mod cache;
mod certificates;
mod certificates_api;
mod claims;
mod csi_drivers;
mod objects;
mod offline;
mod read;
mod resource_claims;
mod runtime_classes;
mod services;
mod trust_bundles;

pub use cache::{CacheTask, Cached};
pub use certificates::CertificateDeps;
pub use csi_drivers::cached_csi_drivers;
pub use objects::{ApiObjects, ObjectsTask, ProjectionDeps};
pub use offline::{CopySubject, OfflineObjects, OfflineObjectsTask, OfflineUsers, ServedCopy};
pub use resource_claims::ApiClaims;
pub use runtime_classes::cached_runtime_classes;
pub use services::cached_services;

//! Objects of the API server that pods refer to: follows ConfigMaps, Secrets and claims on request, all Services and all
//! RuntimeClasses, and requests tokens, its only writes. Knows no pods.

mod binding;
mod cache;
mod claims;
mod objects;
mod read;
mod runtime_classes;
mod services;

pub use cache::{CacheTask, Cached};
pub use objects::{ApiObjects, ObjectsTask};
pub use runtime_classes::cached_runtime_classes;
pub use services::cached_services;

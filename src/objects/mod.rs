//! ConfigMaps, Secrets, claims of volumes, service account tokens, Services and RuntimeClasses of the cluster: the trait
//! [`ObjectSource`], its implementations for an API server and for standalone hosts, and a fake. Knows no pods. Its only writes
//! to the API server are token requests.

mod api;
mod api_claims;
mod claims;
#[cfg(any(test, feature = "fakes"))]
mod fake;
mod kept;
mod runtime_classes;
pub mod services;
mod source;
mod standalone;
mod watched;

pub use api::{ApiObjects, ObjectsTask};
pub use claims::{ClaimError, ClaimRef, ClaimState, GROUP, MOUNT_OPTIONS};
#[cfg(any(test, feature = "fakes"))]
pub use fake::FakeObjects;
pub use kept::{Kept, KeptTask};
pub use runtime_classes::{KnownClasses, RuntimeClassError, RuntimeClasses};
pub use source::{
    Object, ObjectError, ObjectKind, ObjectRef, ObjectSource, ObjectState, ServiceAccountInfo, Token,
    TokenRequest,
};
pub use standalone::{FileObject, Standalone};
pub use watched::{Objects, Watched};

//! ConfigMaps, Secrets, service account tokens and Services of the cluster, followed for whoever asks: the seam, its fake, the
//! source that asks an API server, and that of a host that has none. Knows no pod; never writes to the API server but to request
//! tokens.

mod api;
#[cfg(any(test, feature = "fakes"))]
mod fake;
pub mod services;
mod source;
mod standalone;
mod watched;

pub use api::{ApiObjects, ObjectsTask};
#[cfg(any(test, feature = "fakes"))]
pub use fake::FakeObjects;
pub use source::{
    Object, ObjectError, ObjectKind, ObjectRef, ObjectSource, ObjectState, Token, TokenRequest,
};
pub use standalone::Standalone;
pub use watched::{Objects, Watched};

//! What the room needs of an API server, as a seam: the trait, its fake, the source that asks an API server, and that of a
//! host that has none.

mod api;
#[cfg(any(test, feature = "fakes"))]
mod fake;
mod source;
mod standalone;

pub use api::{ApiObjects, ObjectsTask};
#[cfg(any(test, feature = "fakes"))]
pub use fake::FakeObjects;
pub use source::{Known, Object, ObjectError, ObjectKind, ObjectRef, ObjectSource, Token, TokenRequest};
pub use standalone::Standalone;

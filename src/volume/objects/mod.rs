//! What the room needs of an API server, as a seam: the trait, its fake, and the source of a host that has no API server.

#[cfg(any(test, feature = "fakes"))]
mod fake;
mod source;
mod standalone;

#[cfg(any(test, feature = "fakes"))]
pub use fake::FakeObjects;
pub use source::{Known, Object, ObjectError, ObjectKind, ObjectRef, ObjectSource, Token, TokenRequest};
pub use standalone::Standalone;

//! What the API server would refuse of a pod, checked here because alone on a host there is no API server.

mod error;
pub(crate) mod names;

pub use error::{FieldError, FieldErrorKind, FieldPath};

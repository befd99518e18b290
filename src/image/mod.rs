//! Images: references, pull policies, parallel pulls with a cap, back-off, and archives that stand in for a registry. Never
//! removes an image, and keeps nothing on disk but back-offs in the store.

mod backoff;
mod error;
mod images;
mod policy;
pub mod preload;
mod puller;
mod reference;
mod throttle;

pub use error::ImageError;
pub use images::{EnsuredImage, ImageRequest, Images, PulledIn};
pub use policy::PullPolicy;
pub use puller::PullLimits;
pub use reference::{Reference, ReferenceError, with_default_tag};

#[cfg(test)]
mod tests;

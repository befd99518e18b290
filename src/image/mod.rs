//! Images: references, pull policies, credentials, parallel pulls with a limit, back-off, and preloading from archives. Never
//! removes an image; the only state on disk is the back-offs in the store.

mod backoff;
pub mod credentials;
mod error;
mod images;
mod policy;
pub mod preload;
mod progress;
mod puller;
mod reference;
mod throttle;

pub use error::{ERR_IMAGE_PULL, ImageError};
pub use images::{EnsuredImage, ImageRequest, Images, PulledIn};
pub use policy::PullPolicy;
pub use progress::{Arrivals, ContainerdArrivals};
pub use puller::{PullLimits, PullUnderWay};
pub use reference::{Reference, ReferenceError, with_default_tag};

#[cfg(test)]
mod tests;

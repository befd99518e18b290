//! Images: references, pull policies, parallel pulls with a limit, back-off, and preloading from archives. Never removes an
//! image; the only state on disk is the back-offs in the store.

mod backoff;
mod error;
mod images;
mod policy;
pub mod preload;
mod progress;
mod puller;
mod reference;
mod throttle;

pub use error::ImageError;
pub use images::{EnsuredImage, ImageRequest, Images, PulledIn};
pub use policy::PullPolicy;
pub use progress::{Arrivals, ContainerdArrivals};
pub use puller::{PullLimits, PullUnderWay};
pub use reference::{Reference, ReferenceError, with_default_tag};

#[cfg(test)]
mod tests;

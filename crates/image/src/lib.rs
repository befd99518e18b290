//! Images: pull policies, credentials, parallel pulls with a limit, back-off, who may use an image that is present, preloading from
//! archives, and the removal of images that nothing uses. The only state on disk is the back-offs and records in the store.

mod access;
mod backoff;
pub mod credentials;
mod error;
pub mod gc;
mod images;
mod metrics;
mod names;
mod now;
mod policy;
pub mod preload;
mod progress;
mod puller;

pub use access::RecordUpkeep;
pub use error::ImageError;
pub use images::{EnsuredImage, ImageRequest, Images, PulledIn};
pub use policy::PullPolicy;
pub use progress::{Arrivals, ContainerdArrivals};
pub use puller::{PullLimits, PullUnderWay};

#[cfg(test)]
mod tests;

#[cfg(test)]
hostlet_host::work_in_place!();

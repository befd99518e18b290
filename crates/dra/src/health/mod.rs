//! The health of devices, as their drivers report it.

mod cache;
mod file;
mod status;
mod store;

pub(crate) use cache::DeviceId;
pub(crate) use store::HealthStore;

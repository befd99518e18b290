//! How device plugins get known: the kubelet's socket in their directory, and the registration of plugins of the type `DevicePlugin`.
//! Does not know what devices are for.

mod directory;
mod handler;
mod names;
mod service;

pub(crate) use directory::listen;
pub use handler::DevicePluginHandler;
pub(crate) use handler::{Instances, RegistryChange};
pub(crate) use service::{Accepted, RegistrationService};

//! Devices of device plugins on this node: which there are, who has which, and what containers are given for them. Knows what pods request,
//! and never decides whether a pod runs.
//!
//! [`Devices`] is the entry point: admission asks it for hints, and to allocate ([`Devices::allocate`]); whoever configures a container asks
//! what it was granted ([`Devices::grant`]). Plugins register at the kubelet's socket, which [`DevicesTask`] serves, or as plugins of other
//! types do ([`DevicePluginHandler`]). Decisions are pure: who serves a resource (`inventory`), which devices a container gets (`choice`),
//! who has which (`allocation`), all of that together (`state`). Each allocation is recorded before anybody can use it, in upstream's
//! file (`checkpoint`), which is the only state that survives.

mod allocation;
mod checkpoint;
mod choice;
mod client;
mod device;
mod devices;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod follow;
mod grant;
mod hints;
#[cfg(test)]
mod history_tests;
mod inventory;
mod metrics;
mod record;
mod registration;
mod report;
mod requests;
mod shared;
mod state;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod testing;
mod view;

#[doc(hidden)]
pub use checkpoint::{has_checkpoint, recode as recode_checkpoint};
pub use device::Health;
pub use devices::Devices;
pub use error::{AllocateError, AllocateFailure, NotYet, PreStartError};
pub use registration::DevicePluginHandler;
pub use shared::DevicesSettings;
pub use state::PodStage;
pub use task::DevicesTask;
pub use view::{DeviceView, HeldDevices, HolderView, PluginPhase, ResourceView};

#[cfg(test)]
hostlet_host::work_in_place!();

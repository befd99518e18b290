//! Claimed devices on this node: which DRA drivers there are, calls to them, which ResourceClaims are prepared for which pods, and the
//! health of devices. Does not decide whether a pod runs, and publishes no ResourceSlice.
//!
//! [`Claims`] is the entry point: whoever starts a pod has its claims prepared ([`Claims::prepare`]) and reads its containers' devices
//! ([`Claims::cdi_devices`]); whoever ended it has them unprepared ([`Claims::release`]). Behind it one task ([`ClaimsTask`]) calls the
//! drivers and records in upstream's file `dra_manager_state` what was called; the `ledger` decides.
//!
//! Two traits are implemented elsewhere: [`ClaimSource`], which reads ResourceClaims, and [`DriverService`], the calls to a driver.

mod call;
mod claims;
mod client;
mod device;
mod drivers;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod file;
mod health;
#[cfg(test)]
mod history_tests;
mod ledger;
mod metrics;
mod pod_claims;
mod shared;
mod source;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod testing;
mod view;

pub use call::{Answers, CallError, ClaimFailed, ClaimRef, DriverService};
pub use claims::Claims;
pub use device::Device;
pub use drivers::{DraHandler, HealthTask};
pub use error::{PrepareError, ReleaseError};
pub use file::{CLAIMS_FILE, RecordedClaim, UnreadableClaims, recorded_claims};
pub use ledger::{ForgetError, Operation};
pub use pod_claims::has_claims;
pub use source::{ClaimSource, NoClaims};
pub use task::{ClaimsSettings, ClaimsTask};
pub use view::{ClaimPhase, ClaimView};

#[cfg(test)]
hostlet_host::work_in_place!();

//! Registration: creates the Node, or adopts an existing one.

mod adopt;
mod attempt;
mod former_devices;
mod initial;
#[cfg(test)]
mod tests;

pub(super) use attempt::{Registered, attempt};
pub use former_devices::FormerDevices;
pub(super) use initial::{initial, labels, wrong_labels};

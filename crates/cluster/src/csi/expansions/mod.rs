//! The sizes of volumes of this node's pods, as their claims say: read, and what a driver did is published in the claim's status and in
//! events. Calls no driver.

mod api;
#[cfg(test)]
mod api_tests;
mod rules;
mod status;

pub use api::{ApiExpansions, ExpansionDeps};

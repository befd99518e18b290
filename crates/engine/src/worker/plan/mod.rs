//! What a pod needs: desired × observed × probe results × now → actions. Pure; performs nothing.

mod actions;
mod compute;
mod container;
mod init;
mod input;
mod kill;
mod leftovers;
mod reset;
mod resize;
#[cfg(test)]
mod resize_tests;
mod sandbox;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk_tests;

pub(super) use actions::{Plan, Reset, SandboxPlan, Start};
pub(super) use compute::plan;
pub(super) use input::PlanInput;
pub(super) use kill::Kill;
pub(super) use leftovers::{Leftovers, leftovers};
pub(super) use resize::{LowerLimit, Resize, ResizeStep};

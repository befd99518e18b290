//! Wire definitions that no well-kept crate has: the whole CRI and CSI, and of other interfaces what hostlet uses. No behaviour.

pub mod cri;
pub mod csi;
pub mod dra;
pub mod dra_health;
pub mod dra_plugin;
pub mod listed;
pub mod registration;

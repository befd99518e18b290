//! Wire definitions that no well-kept crate has: the whole CRI, and of other interfaces what hostlet uses. No behaviour.

pub mod cri;
pub mod dra;
pub mod listed;
pub mod registration;

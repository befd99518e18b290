//! Wire definitions that no well-kept crate has. Only what hostlet uses; no behaviour.

pub mod cri;
pub mod dra;
pub mod registration;

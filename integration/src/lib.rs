//! What hostlet's tests stand on: waits, a fake runtime on a socket, and a real host to run the daemon on. Holds no
//! tests and no product code.

pub mod fake_cri;
pub mod real;
mod wait;

pub use wait::{Look, wait_for};

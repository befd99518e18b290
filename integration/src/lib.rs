//! What hostlet's tests stand on: waits, and a real host to run the daemon on. Holds no tests and no product code.

pub mod real;
mod wait;

pub use wait::{Look, wait_for};

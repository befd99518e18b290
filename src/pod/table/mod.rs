//! All pods of this node by UID, each with its worker.

mod lives;

pub use lives::{Effect, LifeView, Lives};

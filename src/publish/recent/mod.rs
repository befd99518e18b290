//! The recent events of pods and of the node, in memory, so that they can be read where there is no API server, too. Sends nothing.

mod ring;

pub use ring::{RecentEvent, RecentEvents};

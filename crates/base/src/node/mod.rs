//! Values that other crates share with `cluster::node`: addresses, events, signals, pressures and resources, and how to read the Node again.

mod addresses;
mod event;
mod own;
mod pressure;
mod reader;
mod signal;

pub use addresses::{AddressPublisher, NodeAddresses};
pub use event::{NodeEvent, NodeEvents};
pub use own::OwnNode;
pub use pressure::{Pressure, Pressures};
pub use reader::{NodeReadError, NodeReader};
pub use signal::{CrossedSignals, Signal, Threshold, Thresholds, pressures};

//! Values that other crates share with `cluster::node`: addresses, events, signals, pressures and resources, and how to read the Node again.

mod addresses;
mod cgroup_limit;
mod event;
mod node_pressure;
mod own;
mod plugin_resources;
mod pressure;
mod reader;
mod signal;

pub use addresses::{AddressPublisher, NodeAddresses};
pub use cgroup_limit::{CgroupLimit, CgroupLimits};
pub use event::{NodeEvent, NodeEvents};
pub use node_pressure::{NodePressure, PressureState, PressureStates, SignalLook};
pub use own::OwnNode;
pub use plugin_resources::PluginResources;
pub use pressure::{Pressure, Pressures};
pub use reader::{NodeReadError, NodeReader};
pub use signal::{Signal, Threshold, Thresholds};

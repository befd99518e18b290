//! Plugins on this host: who they are, and which of them serve. Does not know what a plugin does: a [`PluginHandler`] per type does.

mod accept;
mod client;
#[cfg(test)]
mod client_tests;
mod connection;
mod counts;
mod dial;
mod failure;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod handler;
mod info;
mod list;
mod node_events;
mod registrations;
#[cfg(test)]
mod registrations_tests;
mod rpc;
mod scan;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod testing;
mod view;

pub use accept::{AgentStream, incoming};
pub use dial::{connect, lazy_channel, root_cause};
pub use handler::{Handlers, InstanceId, PluginEvent, PluginHandler, PluginInstance, PluginRejected};
pub use hostlet_proto::registration::PluginInfo;
pub use info::{InfoError, PluginClaim, check};
pub use list::PluginList;
pub use rpc::{CallFailure, Peer, code_name, unary};
pub use task::{PluginSettings, Plugins};
pub use view::{PluginState, PluginView};

#[cfg(test)]
hostlet_host::work_in_place!();

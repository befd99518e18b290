//! What the API server has to do with CSI drivers of this node: what they say of it, as the CSINode and on the Node, which volumes are
//! attached to it, and how large they are to be. Mounts nothing, and decides nothing about pods.

mod attachments;
mod csi_node;
mod expansions;
mod node_change;
mod refresh;
mod task;
#[cfg(test)]
mod task_tests;
mod updates;

pub use attachments::{ApiAttachments, AttachmentDeps};
pub use expansions::{ApiExpansions, ExpansionDeps};
pub use refresh::RefreshNodeInfo;
pub use task::{CsiNodeDeps, CsiNodeTask};
pub use updates::NodeInfoUpdates;

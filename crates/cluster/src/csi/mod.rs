//! What the API server has to do with CSI drivers of this node: volumes that are attached to it, and later what drivers say of it. Mounts
//! nothing, and decides nothing about pods.

mod attachments;
mod refresh;

pub use attachments::{ApiAttachments, AttachmentDeps};
pub use refresh::RefreshNodeInfo;

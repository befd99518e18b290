//! The ID ranges of pods with their own user namespace (`hostUsers: false`): unique on the host, kept as long as the pod, found
//! again by the next daemon or by a stock kubelet. Never calls the runtime.

mod configs;
mod file;
mod namespaces;
mod ranges;
mod subordinate;
#[cfg(test)]
mod tests;

pub(crate) use configs::isolate_users;
pub(super) use configs::share_users;
#[cfg(test)]
pub(super) use file::remove_mappings;
pub(crate) use namespaces::{UserNamespaceError, UserNamespaces};
pub(crate) use ranges::IdRange;
pub use subordinate::SubordinateIds;

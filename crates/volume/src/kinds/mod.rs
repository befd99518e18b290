//! The kinds of volumes, one per file: the objects they refer to, and their files or their storage. Pure.

pub(super) mod claim;
pub(super) mod config_map;
pub(super) mod downward_api;
pub(super) mod empty_dir;
pub(super) mod host_path;
mod keys;
pub(super) mod nfs;
pub(super) mod projected;
mod resource_field;
pub(super) mod secret;
#[cfg(test)]
mod testing;

pub use resource_field::{container_named, resource_value};

//! The kinds of volumes, one per file: the objects they refer to, and their files, their storage or what they mount. Pure.

pub(super) mod claim;
pub(super) mod config_map;
pub(super) mod csi;
mod csi_driver;
mod csi_label;
mod csi_rules;
mod downward_api;
pub(super) mod empty_dir;
pub(super) mod host_path;
mod keys;
mod kind;
pub(super) mod local_volume;
mod migrated;
pub(super) mod nfs;
mod owned;
pub(super) mod pod_certificate;
pub(super) mod projected;
pub(super) mod registry;
mod resource_field;
pub(super) mod secret;
#[cfg(test)]
mod testing;
pub(super) mod trust_bundle;
mod written;

pub use registry::cause_rules;
pub use resource_field::{container_named, resource_value};

//! Builds sandbox and container configurations from a pod and the host. Pure except `files`, `dirs`, `kernel` and `user_namespaces`; never
//! calls the runtime and never decides what to run.

mod annotations;
mod config;
mod dirs;
mod dns;
mod env;
mod env_file;
mod error;
mod expand;
mod files;
mod gojson;
mod hash;
mod hostname;
mod hosts;
mod kernel;
mod linux_resources;
mod ports;
mod sandbox;
mod security;
mod settings;
mod sub_path;
#[cfg(test)]
pub mod testing;
mod user_namespaces;
mod volume_groups;

pub use config::{ContainerExtras, ContainerInput, container_config};
pub use dirs::{PodDirError, pod_dirs, remove_pod_dir};
pub use dns::{DnsWarning, ResolvConfError, parse_resolv_conf};
pub use env::{EnvSources, FileValue, env_references};
pub use env_file::{EnvFileError, env_file_value};
pub use error::ConfigError;
pub use expand::expand;
pub use files::{FilesError, MountSources, container_mounts, make_pod_dir, pod_dns, resolv_conf_problem};
pub use hash::container_hash;
pub use kernel::KernelFacts;
pub use linux_resources::{resized_resources, resized_sandbox};
pub use sandbox::sandbox_config;
pub use security::{MASKED_PATHS, READONLY_PATHS};
pub use settings::HostSettings;
pub use sub_path::sub_paths;
pub use user_namespaces::{
    IdRange, MappingError, RangeError, SubordinateIds, SubordinateIdsError, UserNamespaceError,
    UserNamespaces, isolate_users,
};
pub use volume_groups::join_sandbox_groups;

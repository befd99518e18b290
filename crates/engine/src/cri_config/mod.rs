//! Builds sandbox and container configurations from a pod and the host. Pure except `files`, `dirs`, `kernel` and `user_namespaces`; never
//! calls the runtime and never decides what to run.

mod annotations;
mod config;
mod devices;
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

pub(crate) use config::{ContainerExtras, ContainerInput, container_config};
pub(crate) use devices::container_devices;
pub(crate) use dirs::pod_dirs;
pub use dirs::{PodDirError, remove_pod_dir};
pub(crate) use dns::DnsWarning;
pub use dns::{ResolvConfError, parse_resolv_conf};
pub(crate) use env::{EnvSources, FileValue, env_references};
pub use env_file::{EnvFileError, env_file_value};
pub(crate) use error::ConfigError;
pub(crate) use expand::expand;
pub use files::resolv_conf_problem;
pub(crate) use files::{FilesError, MountSources, container_mounts, make_pod_dir, pod_dns};
pub(crate) use hash::container_hash;
pub use kernel::KernelFacts;
pub(crate) use linux_resources::{remove_quota, resized_resources, resized_sandbox};
pub(crate) use sandbox::sandbox_config;
pub use security::{MASKED_PATHS, READONLY_PATHS};
pub use settings::HostSettings;
pub(crate) use sub_path::sub_paths;
pub use user_namespaces::SubordinateIds;
pub(crate) use user_namespaces::{IdRange, UserNamespaceError, UserNamespaces, isolate_users};
pub(crate) use volume_groups::join_sandbox_groups;

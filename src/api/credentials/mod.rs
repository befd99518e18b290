//! This node's credentials for the API server: read from a kubeconfig, its files and its credential plugin in the background,
//! and kept valid while the daemon runs. Sends no request itself.

mod exposure;
mod keeper;
mod login;
mod plugin;
mod source;

pub(in crate::api) use keeper::Access;
pub use keeper::{Credentials, CredentialsTask};
pub(in crate::api) use login::Login;
pub use source::CredentialsSource;

//! This node's credentials for the API server: read from a kubeconfig, its files and its credential plugin in the background,
//! and kept valid while the daemon runs. Sends no request itself.

mod exposure;
mod login;
mod plugin;
mod source;
mod task;

pub(in crate::api) use login::Login;
pub use source::CredentialsSource;
pub(in crate::api) use task::Access;
pub use task::{Credentials, CredentialsTask};

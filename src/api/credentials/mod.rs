//! Who this node is to the API server: read from a kubeconfig, from the files it names and from a credential plugin, without
//! anybody waiting for these; kept good for as long as the daemon runs. Sends no request itself.

mod exposure;
mod keeper;
mod login;
mod plugin;

pub use keeper::{Credentials, CredentialsTask};
pub(in crate::api) use login::Login;

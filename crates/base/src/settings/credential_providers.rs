//! The credential provider plugins that a configuration names. Reads no file and runs no plugin.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::RegistryLocation;

/// The credential provider plugins of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProviders {
    /// Directory of their executables (`--image-credential-provider-bin-dir`).
    pub bin_dir: PathBuf,
    /// The plugins, in the order of the files.
    pub providers: Vec<CredentialProvider>,
    /// Digest of the files, `sha256:` and hexadecimal digits, as the stock kubelet reports it in its metrics.
    pub digest: String,
}

/// A credential provider plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProvider {
    /// The name of its executable.
    pub name: String,
    /// The images that it is asked about.
    pub match_images: Vec<RegistryLocation>,
    /// How long a response is cached that names no duration.
    pub default_cache_duration: Duration,
    /// The API version of request and response.
    pub api_version: String,
    /// The arguments of its executable, in order.
    pub args: Vec<String>,
    /// Variables that it gets in addition to hostlet's own.
    pub env: Vec<(String, String)>,
    /// How it gets tokens of service accounts; `None` if it gets none.
    pub token: Option<TokenAttributes>,
}

/// How a provider gets tokens of the pods' service accounts (`tokenAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAttributes {
    /// The audience of the tokens.
    pub audience: String,
    /// Whether its responses apply to the pod of the token only, rather than to all pods of the service account.
    pub is_cached_by_token: bool,
    /// Whether it is not asked for pods without a service account.
    pub is_required: bool,
    /// Annotations without which it is not asked.
    pub required_annotations: BTreeSet<String>,
    /// Annotations that it gets as well.
    pub optional_annotations: BTreeSet<String>,
}

//! Request and response of a credential provider, `credentialprovider.kubelet.k8s.io`, whose versions have the same fields. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::{GoDuration, one_line};
use serde::Deserialize;
use serde_json::json;

use super::super::{DockerConfig, Login};

/// Longest part of a response in an error.
const MAX_SHOWN: usize = 100;

/// Why a response is unusable. Has nothing of its credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// It is not JSON, or has unknown fields or other types than expected.
    #[error("its response is no CredentialProviderResponse in JSON (line {line}, column {column})")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It is of another version or kind than requested.
    #[error(
        "it responded with apiVersion {:?} and kind {:?}, expected {expected:?} and \"CredentialProviderResponse\"",
        one_line(api_version, MAX_SHOWN),
        one_line(kind, MAX_SHOWN)
    )]
    Kind {
        /// As in the response.
        api_version: String,
        /// As in the response.
        kind: String,
        /// The requested version.
        expected: String,
    },
    /// `cacheKeyType` is missing or unknown.
    #[error("its response has cacheKeyType {:?}, expected Image, Registry or Global", one_line(.0, MAX_SHOWN))]
    CacheKeyType(String),
}

/// What a response may be reused for (`cacheKeyType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKeyType {
    /// The same image.
    Image,
    /// All images of the registry.
    Registry,
    /// All images.
    Global,
}

/// A provider's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderResponse {
    /// What it may be reused for.
    pub cache_key_type: CacheKeyType,
    /// How long it may be reused; `None` for the provider's default, zero for not at all.
    pub cache_duration: Option<Duration>,
    /// Its logins by location.
    pub config: DockerConfig,
}

/// The response on the wire. Any value may be `null`, as in Go.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    api_version: Option<String>,
    kind: Option<String>,
    cache_key_type: Option<String>,
    cache_duration: Option<GoDuration>,
    auth: Option<BTreeMap<String, Option<WireLogin>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLogin {
    username: Option<String>,
    password: Option<String>,
}

/// The request for the credentials of an image, with a service account's token and annotations if the provider gets them.
pub(super) fn request(
    api_version: &str,
    image: &str,
    account: Option<(&str, &BTreeMap<String, String>)>,
) -> Vec<u8> {
    let mut request = json!({"kind": "CredentialProviderRequest", "apiVersion": api_version, "image": image});
    if let Some((token, annotations)) = account {
        request["serviceAccountToken"] = json!(token);
        if !annotations.is_empty() {
            request["serviceAccountAnnotations"] = json!(annotations);
        }
    }
    format!("{request}\n").into_bytes()
}

impl ProviderResponse {
    /// Parses the output of a provider that was asked in the version `api_version`. Strict, as upstream.
    pub fn parse(output: &[u8], api_version: &str) -> Result<Self, ResponseError> {
        // Only the place: the text of the error may contain a value.
        let wire: Wire = serde_json::from_slice(output)
            .map_err(|error| ResponseError::Json { line: error.line(), column: error.column() })?;
        let (found, kind) = (wire.api_version.unwrap_or_default(), wire.kind.unwrap_or_default());
        if found != api_version || kind != "CredentialProviderResponse" {
            return Err(ResponseError::Kind { api_version: found, kind, expected: api_version.to_owned() });
        }
        let cache_key_type = wire.cache_key_type.unwrap_or_default();
        let cache_key_type = match cache_key_type.as_str() {
            "Image" => CacheKeyType::Image,
            "Registry" => CacheKeyType::Registry,
            "Global" => CacheKeyType::Global,
            _ => return Err(ResponseError::CacheKeyType(cache_key_type)),
        };
        let login = |(location, login): (String, Option<WireLogin>)| {
            let WireLogin { username, password } = login.unwrap_or_default();
            (location, Login::new(username.unwrap_or_default(), password.unwrap_or_default()))
        };
        Ok(Self {
            cache_key_type,
            // One that ended in the past is not reused.
            cache_duration: wire.cache_duration.map(|duration| duration.to_std().unwrap_or_default()),
            config: DockerConfig { logins: wire.auth.unwrap_or_default().into_iter().map(login).collect() },
        })
    }
}

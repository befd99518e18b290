//! `authentication` and `authorization`.

use hostlet_base::GoDuration;
use serde::{Deserialize, Serialize};

use super::scalars::blank_is_unset;

/// How clients of the kubelet's server are authenticated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Authentication {
    pub x509: X509,
    pub webhook: WebhookAuthentication,
    pub anonymous: Anonymous,
}

/// Client certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct X509 {
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: Option<String>,
}

/// Bearer tokens, verified by the API server (TokenReview).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct WebhookAuthentication {
    pub enabled: Option<bool>,
    #[serde(rename = "cacheTTL")]
    pub(crate) cache_ttl: Option<GoDuration>,
}

/// Requests without credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Anonymous {
    pub enabled: Option<bool>,
}

/// How requests to the kubelet's server are authorized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Authorization {
    #[serde(deserialize_with = "blank_is_unset")]
    pub mode: Option<AuthorizationMode>,
    pub webhook: WebhookAuthorization,
}

/// The authorization mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AuthorizationMode {
    AlwaysAllow,
    Webhook,
}

/// How long decisions of the API server (SubjectAccessReview) are cached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct WebhookAuthorization {
    #[serde(rename = "cacheAuthorizedTTL")]
    pub(crate) cache_authorized_ttl: Option<GoDuration>,
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub(crate) cache_unauthorized_ttl: Option<GoDuration>,
}

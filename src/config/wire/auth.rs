//! `authentication` and `authorization`.

use serde::{Deserialize, Serialize};

use super::scalars::blank_is_unset;
use crate::config::GoDuration;

/// Who a request to the kubelet's server comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Authentication {
    pub(crate) x509: X509,
    pub(crate) webhook: WebhookAuthentication,
    pub(crate) anonymous: Anonymous,
}

/// Client certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct X509 {
    #[serde(rename = "clientCAFile")]
    pub(crate) client_ca_file: Option<String>,
}

/// Bearer tokens, reviewed by the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct WebhookAuthentication {
    pub(crate) enabled: Option<bool>,
    #[serde(rename = "cacheTTL")]
    pub(crate) cache_ttl: Option<GoDuration>,
}

/// Requests that say nothing about whom they come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Anonymous {
    pub(crate) enabled: Option<bool>,
}

/// What a request to the kubelet's server may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Authorization {
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) mode: Option<AuthorizationMode>,
    pub(crate) webhook: WebhookAuthorization,
}

/// Who decides what a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AuthorizationMode {
    AlwaysAllow,
    Webhook,
}

/// How long decisions of the API server are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct WebhookAuthorization {
    #[serde(rename = "cacheAuthorizedTTL")]
    pub(crate) cache_authorized_ttl: Option<GoDuration>,
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub(crate) cache_unauthorized_ttl: Option<GoDuration>,
}

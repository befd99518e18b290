//! Docker's configuration of registry credentials, as in pull Secrets and in files of the host: `config.json`, and `.dockercfg`
//! before it. Pure.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use hostlet_base::{go_json, one_line};

/// Longest part of a location in an error.
const MAX_SHOWN: usize = 200;

/// Accepts what Go does: padding is optional, unused bits are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A user name and a password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// Name of the account at the registry; empty with a token alone.
    pub username: String,
    /// The password or token.
    pub password: String,
    /// Has no effect except that upstream's hash includes it. Mostly empty.
    pub email: String,
}

impl Login {
    /// The login of a user without an e-mail address.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: password.into(), email: String::new() }
    }

    /// Identifies the login without showing it: the hash in the stock kubelet's records, SHA-256 in hexadecimal.
    pub fn hash(&self) -> String {
        #[derive(Serialize)]
        struct Hashed<'a> {
            #[serde(skip_serializing_if = "str::is_empty")]
            username: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            password: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            email: &'a str,
        }
        let Self { username, password, email } = self;
        // Texts can always be encoded.
        let json = go_json(&Hashed { username, password, email }).unwrap_or_default();
        hex::encode(Sha256::digest(json))
    }
}

/// Never prints the password, nor the user, which may be a token as well.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Why a Docker configuration is invalid. Has nothing of its contents except locations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DockerConfigError {
    /// It is not JSON, or has other types than expected.
    #[error("invalid JSON of registry credentials at line {line}, column {column}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// `auth` of an entry is not the base64 form of `user:password`.
    #[error("the auth field of {} must be base64(username:password)", one_line(.0, MAX_SHOWN))]
    Auth(String),
}

/// The logins of a configuration, by location: a registry, or a path in one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerConfig {
    /// The logins, as written.
    pub logins: BTreeMap<String, Login>,
}

#[derive(Deserialize)]
struct ConfigJson {
    auths: Option<BTreeMap<String, Option<Entry>>>,
}

#[derive(Default, Deserialize)]
struct Entry {
    username: Option<String>,
    password: Option<String>,
    email: Option<String>,
    auth: Option<String>,
}

impl DockerConfig {
    /// Reads a `config.json`; fields other than `auths` are ignored, as upstream.
    pub fn from_config_json(bytes: &[u8]) -> Result<Self, DockerConfigError> {
        let config: Option<ConfigJson> = serde_json::from_slice(bytes).map_err(json_error)?;
        Self::from_entries(config.and_then(|config| config.auths).unwrap_or_default())
    }

    /// Reads a `.dockercfg`, which has the entries without `auths` around them.
    pub fn from_dockercfg(bytes: &[u8]) -> Result<Self, DockerConfigError> {
        let entries: Option<BTreeMap<String, Option<Entry>>> =
            serde_json::from_slice(bytes).map_err(json_error)?;
        Self::from_entries(entries.unwrap_or_default())
    }

    fn from_entries(entries: BTreeMap<String, Option<Entry>>) -> Result<Self, DockerConfigError> {
        let logins = entries.into_iter().map(|(location, entry)| {
            let login = entry.unwrap_or_default().login();
            Ok((location.clone(), login.ok_or(DockerConfigError::Auth(location))?))
        });
        Ok(Self { logins: logins.collect::<Result<_, _>>()? })
    }
}

impl Entry {
    /// Its login: `auth` has precedence. `None` if that is malformed.
    fn login(self) -> Option<Login> {
        let email = self.email.unwrap_or_default();
        let Some(mut auth) = self.auth.filter(|auth| !auth.is_empty()) else {
            let (username, password) = (self.username.unwrap_or_default(), self.password.unwrap_or_default());
            return Some(Login { username, password, email });
        };
        // Go ignores line ends in base64.
        auth.retain(|c| !matches!(c, '\r' | '\n'));
        let decoded = String::from_utf8(BASE64.decode(auth).ok()?).ok()?;
        let (username, password) = decoded.split_once(':')?;
        Some(Login { email, ..Login::new(username, password) })
    }
}

/// Only the place: the text of the error may contain a value.
fn json_error(error: serde_json::Error) -> DockerConfigError {
    DockerConfigError::Json { line: error.line(), column: error.column() }
}

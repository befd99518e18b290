//! Who sends a request.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::UserInfo;

/// The group of everybody with accepted credentials.
const AUTHENTICATED: &str = "system:authenticated";

/// A user, as the API server knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct User {
    /// The name that RBAC binds rights to.
    pub name: String,
    /// The UID, if the authority gave one.
    pub uid: String,
    /// The groups, as the authority reported them; a certificate has them as its organizations.
    pub groups: Vec<String>,
    /// What else the authority said.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody without credentials.
    pub(super) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".to_owned()],
            extra: BTreeMap::new(),
        }
    }

    /// Somebody with accepted credentials, who is in the group of all those.
    pub(super) fn authenticated(mut self) -> Self {
        if !self.has_credentials() {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether they had credentials that were accepted.
    pub(in crate::node_api) fn has_credentials(&self) -> bool {
        self.groups.iter().any(|group| group == AUTHENTICATED)
    }
}

impl From<UserInfo> for User {
    fn from(info: UserInfo) -> Self {
        Self {
            name: info.username.unwrap_or_default(),
            uid: info.uid.unwrap_or_default(),
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        }
    }
}

//! The record of one image: by each name that it was pulled by, the credentials that were accepted. Pure; the form is the
//! stock kubelet's `ImagePulledRecord`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::credentials::{LoginSource, ObjectIdentity, SourcedLogin};

/// No more Secrets are added to a record while pods are checked, as upstream: namespaces may come and go without end.
const MAX_ADDED_BY_CHECKS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageRecord {
    /// When it was last pulled, or changed.
    pub(super) last_updated_time: Timestamp,
    /// By name, fully qualified and without tag and digest. An image without the name was pulled under unknown circumstances.
    pub(super) credential_mapping: BTreeMap<String, Access>,
}

/// Who may use an image under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Access {
    /// All pods: it was pulled without credentials, or with the credentials of the node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    node_pods_accessible: bool,
    /// Pods with one of these Secrets; sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_secrets: Vec<SecretAccess>,
    /// Pods of these service accounts; sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_service_accounts: Vec<ObjectIdentity>,
}

/// A Secret with a login that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretAccess {
    #[serde(flatten)]
    secret: ObjectIdentity,
    /// SHA-256 of the login.
    credential_hash: String,
}

/// Whether a pod's credentials permit the use of an image that is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Not known: only a pull can show it.
    Unknown,
    /// Permitted, as recorded.
    Granted,
    /// Permitted, and this is to be recorded, so that either the Secret or the login may change next.
    GrantedBy(Access),
}

impl Access {
    /// What a pull with this login proves; `None` is an anonymous pull.
    pub(super) fn of(login: Option<&SourcedLogin>) -> Self {
        match login.map(|login| (&login.source, login)) {
            None | Some((LoginSource::Node, _)) => Self { node_pods_accessible: true, ..Self::default() },
            Some((LoginSource::Secret(secret), login)) => {
                let access = SecretAccess { secret: secret.clone(), credential_hash: login.login.hash() };
                Self { kubernetes_secrets: vec![access], ..Self::default() }
            }
            Some((LoginSource::ServiceAccount(account), _)) => {
                Self { kubernetes_service_accounts: vec![account.clone()], ..Self::default() }
            }
        }
    }

    /// Whether all pods may use it.
    pub(super) fn is_open(&self) -> bool {
        self.node_pods_accessible
    }

    /// Whether some pods may use it because of their credentials.
    pub(super) fn has_owners(&self) -> bool {
        !self.kubernetes_secrets.is_empty() || !self.kubernetes_service_accounts.is_empty()
    }

    /// Adds what another pull proves. A Secret that is known gets the other hash.
    pub(super) fn merge(&mut self, other: Self) {
        if self.node_pods_accessible || other.node_pods_accessible {
            *self = Self { node_pods_accessible: true, ..Self::default() };
            return;
        }
        for access in other.kubernetes_secrets {
            self.kubernetes_secrets.retain(|known| known.secret != access.secret);
            self.kubernetes_secrets.push(access);
        }
        self.kubernetes_secrets.sort();
        self.kubernetes_service_accounts.extend(other.kubernetes_service_accounts);
        self.kubernetes_service_accounts.sort();
        self.kubernetes_service_accounts.dedup();
    }

    /// Whether one of a pod's credentials is among the known ones: by its login, by its Secret, or by its service account.
    pub(super) fn admission(&self, presented: &[SourcedLogin]) -> Admission {
        let has_room = self.kubernetes_secrets.len() < MAX_ADDED_BY_CHECKS;
        for login in presented {
            let LoginSource::Secret(secret) = &login.source else { continue };
            let hash = login.login.hash();
            for known in &self.kubernetes_secrets {
                match (known.credential_hash == hash, known.secret == *secret) {
                    (true, true) => return Admission::Granted,
                    (true, false) | (false, true) if has_room => {
                        return Admission::GrantedBy(Self::of(Some(login)));
                    }
                    (true, false) => return Admission::Granted,
                    // Its new login cannot be recorded: it has to prove itself.
                    (false, _) => {}
                }
            }
        }
        let is_known = |login: &SourcedLogin| match &login.source {
            LoginSource::ServiceAccount(account) => self.kubernetes_service_accounts.contains(account),
            LoginSource::Node | LoginSource::Secret(_) => false,
        };
        if presented.iter().any(is_known) { Admission::Granted } else { Admission::Unknown }
    }
}

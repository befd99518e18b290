//! A copy, and what it is a copy of. Values only.

use std::fmt;
use std::sync::Arc;

use hostlet_base::PodUid;
use hostlet_pod::objects::{
    Object, ObjectRef, ObjectReferences, Token, TokenRequest, TrustAnchors, TrustBundleRef,
};
use hostlet_store::Table;
use jiff::Timestamp;

/// What there is a copy of. `Display` names it for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopySubject {
    /// A ConfigMap or a Secret.
    Object(ObjectRef),
    /// The token that was issued for a request.
    Token(TokenRequest),
    /// The trust anchors of ClusterTrustBundles.
    TrustBundles(TrustBundleRef),
}

impl fmt::Display for CopySubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => write!(f, "{} {}/{}", object.kind, object.namespace, object.name),
            Self::Token(request) => {
                write!(f, "token of serviceaccount {}/{}", request.namespace, request.service_account)?;
                match request.audiences.as_slice() {
                    [] => Ok(()),
                    audiences => write!(f, " for {}", audiences.join(", ")),
                }
            }
            Self::TrustBundles(bundles) => bundles.fmt(f),
        }
    }
}

impl CopySubject {
    /// Everything that a pod needs.
    pub(super) fn of_references(needed: ObjectReferences) -> impl Iterator<Item = Self> {
        let objects = needed.objects.into_iter().map(Self::Object);
        let tokens = needed.tokens.into_iter().map(Self::Token);
        objects.chain(tokens).chain(needed.trust_bundles.into_iter().map(Self::TrustBundles))
    }

    /// The pod that it is bound to, if it is of one only.
    pub(super) fn pod(&self) -> Option<PodUid> {
        match self {
            Self::Token(request) => Some(request.pod_uid.as_str().into()),
            Self::Object(_) | Self::TrustBundles(_) => None,
        }
    }

    /// The table of its row.
    pub(super) fn table(&self) -> Table {
        match self {
            Self::Object(_) => Table::OfflineObjects,
            Self::Token(_) => Table::OfflineTokens,
            Self::TrustBundles(_) => Table::OfflineTrustBundles,
        }
    }

    /// The key of its row. The key is not encrypted, as the spec of the pod that uses it is not.
    pub(super) fn row_key(&self) -> String {
        match self {
            Self::Object(object) => format!("{}/{}/{}", object.kind, object.namespace, object.name),
            // An audience may have any characters, hence their lengths.
            Self::Token(request) => {
                let TokenRequest { namespace, service_account, service_account_uid, .. } = request;
                let audiences =
                    request.audiences.iter().map(|audience| format!("/{}:{audience}", audience.len()));
                format!(
                    "{}/{}/{namespace}/{service_account}/{}/{}{}",
                    request.pod_uid,
                    request.pod_name,
                    service_account_uid.as_deref().unwrap_or_default(),
                    request.expiration_seconds,
                    audiences.collect::<String>(),
                )
            }
            Self::TrustBundles(TrustBundleRef::Named(name)) => format!("name/{name}"),
            // None selects nothing, so that there is no copy of it.
            Self::TrustBundles(TrustBundleRef::OfSigner { signer, selector }) => {
                format!("signer/{signer}/{}", selector.as_deref().unwrap_or_default())
            }
        }
    }
}

/// The content of a copy.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CopyValue {
    /// The data of a ConfigMap or Secret.
    Object(Arc<Object>),
    /// A token, with the times of this host's clock.
    Token(Token),
    /// Trust anchors.
    TrustBundles(Arc<TrustAnchors>),
}

impl CopyValue {
    /// Its size in bytes, approximately.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Object(object) => object.entries().map(|(key, value)| key.len() + value.len()).sum(),
            Self::Token(token) => token.value.len(),
            Self::TrustBundles(anchors) => anchors.pem.len(),
        }
    }
}

/// A copy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredCopy {
    /// When the API server sent it, by this host's clock: only for people, since the clock may have been wrong.
    pub(super) sent_at: Timestamp,
    /// Its content.
    pub(super) value: CopyValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_requests_for_tokens_have_one_row() {
        let request = TokenRequest {
            namespace: "ns".to_owned(),
            service_account: "sa".to_owned(),
            service_account_uid: None,
            audiences: vec!["a".to_owned(), "b".to_owned()],
            expiration_seconds: 3600,
            pod_name: "web".to_owned(),
            pod_uid: "u1".to_owned(),
        };
        let key = |edit: fn(&mut TokenRequest)| {
            let mut edited = request.clone();
            edit(&mut edited);
            CopySubject::Token(edited).row_key()
        };
        let keys = [
            key(|_| {}),
            key(|request| request.audiences = vec!["a/1:b".to_owned()]),
            key(|request| request.audiences = vec!["a".to_owned()]),
            key(|request| request.audiences.clear()),
            key(|request| request.service_account_uid = Some("7".to_owned())),
            key(|request| request.expiration_seconds = 7200),
            key(|request| request.pod_uid = "u2".to_owned()),
        ];
        let different: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len(), "{keys:?}");
        assert_eq!(keys[0], "u1/web/ns/sa//3600/1:a/1:b");
        assert_eq!(CopySubject::Token(request).to_string(), "token of serviceaccount ns/sa for a, b");
    }
}

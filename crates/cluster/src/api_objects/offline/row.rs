//! Copies as rows of the store, before they are sealed: the format on the disk. A change of it needs another table.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_pod::objects::{
    Object, ObjectKind, ObjectRef, Token, TokenRequest, TrustAnchors, TrustBundleRef,
};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

use super::copy::{CopySubject, CopyValue, StoredCopy};

/// A ConfigMap or a Secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectRow {
    kind: Kind,
    namespace: String,
    name: String,
    sent_at: Timestamp,
    text: BTreeMap<String, String>,
    binary: BTreeMap<String, ByteString>,
    secret_type: String,
    uid: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    ConfigMap,
    Secret,
}

/// A token.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenRow {
    namespace: String,
    service_account: String,
    service_account_uid: Option<String>,
    audiences: Vec<String>,
    expiration_seconds: i64,
    pod_name: String,
    pod_uid: String,
    value: String,
    issued: Timestamp,
    expires: Timestamp,
}

/// Trust anchors.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrustBundlesRow {
    bundles: Bundles,
    sent_at: Timestamp,
    number: usize,
    pem: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Bundles {
    Named { name: String },
    OfSigner { signer: String, selector: Option<String> },
}

/// The row of a copy.
pub(super) enum Row {
    Object(ObjectRow),
    Token(TokenRow),
    TrustBundles(TrustBundlesRow),
}

impl Row {
    /// The row of a copy; `None` if the copy is not one of its subject.
    pub(super) fn new(subject: &CopySubject, copy: &StoredCopy) -> Option<Self> {
        match (subject, &copy.value) {
            (CopySubject::Object(reference), CopyValue::Object(object)) => {
                Some(Self::Object(ObjectRow::new(reference, object, copy.sent_at)))
            }
            (CopySubject::Token(request), CopyValue::Token(token)) => {
                Some(Self::Token(TokenRow::new(request, token)))
            }
            (CopySubject::TrustBundles(bundles), CopyValue::TrustBundles(anchors)) => {
                Some(Self::TrustBundles(TrustBundlesRow::new(bundles, anchors, copy.sent_at)))
            }
            (CopySubject::Object(_), CopyValue::Token(_) | CopyValue::TrustBundles(_))
            | (CopySubject::Token(_), CopyValue::Object(_) | CopyValue::TrustBundles(_))
            | (CopySubject::TrustBundles(_), CopyValue::Object(_) | CopyValue::Token(_)) => None,
        }
    }
}

impl ObjectRow {
    fn new(reference: &ObjectRef, object: &Object, sent_at: Timestamp) -> Self {
        let kind = match reference.kind {
            ObjectKind::ConfigMap => Kind::ConfigMap,
            ObjectKind::Secret => Kind::Secret,
        };
        let binary = object.binary.iter().map(|(key, data)| (key.clone(), ByteString(data.clone())));
        Self {
            kind,
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            sent_at,
            text: object.text.clone(),
            binary: binary.collect(),
            secret_type: object.secret_type.clone(),
            uid: object.uid.clone(),
        }
    }
}

impl From<ObjectRow> for (CopySubject, StoredCopy) {
    fn from(row: ObjectRow) -> Self {
        let ObjectRow { kind, namespace, name, sent_at, text, binary, secret_type, uid } = row;
        let kind = match kind {
            Kind::ConfigMap => ObjectKind::ConfigMap,
            Kind::Secret => ObjectKind::Secret,
        };
        let binary = binary.into_iter().map(|(key, data)| (key, data.0)).collect();
        let object = Object { text, binary, secret_type, uid };
        let copy = StoredCopy { sent_at, value: CopyValue::Object(Arc::new(object)) };
        (CopySubject::Object(ObjectRef { kind, namespace, name }), copy)
    }
}

impl TokenRow {
    fn new(request: &TokenRequest, token: &Token) -> Self {
        let (request, token) = (request.clone(), token.clone());
        Self {
            namespace: request.namespace,
            service_account: request.service_account,
            service_account_uid: request.service_account_uid,
            audiences: request.audiences,
            expiration_seconds: request.expiration_seconds,
            pod_name: request.pod_name,
            pod_uid: request.pod_uid,
            value: token.value,
            issued: token.issued,
            expires: token.expires,
        }
    }
}

impl From<TokenRow> for (CopySubject, StoredCopy) {
    fn from(row: TokenRow) -> Self {
        let request = TokenRequest {
            namespace: row.namespace,
            service_account: row.service_account,
            service_account_uid: row.service_account_uid,
            audiences: row.audiences,
            expiration_seconds: row.expiration_seconds,
            pod_name: row.pod_name,
            pod_uid: row.pod_uid,
        };
        let token = Token { value: row.value, issued: row.issued, expires: row.expires };
        (CopySubject::Token(request), StoredCopy { sent_at: token.issued, value: CopyValue::Token(token) })
    }
}

impl TrustBundlesRow {
    fn new(bundles: &TrustBundleRef, anchors: &TrustAnchors, sent_at: Timestamp) -> Self {
        let bundles = match bundles.clone() {
            TrustBundleRef::Named(name) => Bundles::Named { name },
            TrustBundleRef::OfSigner { signer, selector } => Bundles::OfSigner { signer, selector },
        };
        Self { bundles, sent_at, number: anchors.bundles, pem: anchors.pem.clone() }
    }
}

impl From<TrustBundlesRow> for (CopySubject, StoredCopy) {
    fn from(row: TrustBundlesRow) -> Self {
        let TrustBundlesRow { bundles, sent_at, number, pem } = row;
        let bundles = match bundles {
            Bundles::Named { name } => TrustBundleRef::Named(name),
            Bundles::OfSigner { signer, selector } => TrustBundleRef::OfSigner { signer, selector },
        };
        let anchors = Arc::new(TrustAnchors { bundles: number, pem });
        (CopySubject::TrustBundles(bundles), StoredCopy { sent_at, value: CopyValue::TrustBundles(anchors) })
    }
}

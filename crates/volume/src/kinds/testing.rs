//! A pod and its known objects, for the tests of volume kinds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use crate::desired::desired;
use crate::error::ContentError;
use crate::files::Files;
use crate::model::{Content, Context, DesiredVolume, Snapshot};
pub(super) use crate::testing::NODE;
use hostlet_pod::objects::{
    CertificateRef, CertificateState, ClaimState, Object, ObjectError, ObjectKind, ObjectRef, ObjectState,
    Token, TrustBundleRef, TrustBundleState,
};

/// Pod `ns/web`.
pub(super) struct Pod {
    pub(super) pod: api::Pod,
    pub(super) memory_limit: Option<u64>,
    pub(super) labels: BTreeMap<String, String>,
    /// The label of containers' files.
    pub(super) file_label: Option<String>,
    snapshot: Snapshot,
}

impl Pod {
    pub(super) fn new(spec: Value) -> Self {
        let mut spec = spec;
        if spec.get("containers").is_none() {
            spec["containers"] = json!([]);
        }
        let pod = serde_json::from_value(json!({
            "metadata": {
                "name": "web", "namespace": "ns", "uid": "uid-1",
                "labels": {"tier": "b", "app": "web"}, "annotations": {"note": "a \"b\"\nc"}
            },
            "spec": spec
        }));
        let (labels, file_label) = (BTreeMap::new(), None);
        Self { pod: pod.unwrap(), memory_limit: None, labels, file_label, snapshot: Snapshot::default() }
    }

    pub(super) fn knows(self, kind: ObjectKind, name: &str, known: ObjectState) -> Self {
        self.knows_in("ns", kind, name, known)
    }

    pub(super) fn knows_in(
        mut self,
        namespace: &str,
        kind: ObjectKind,
        name: &str,
        known: ObjectState,
    ) -> Self {
        let object = ObjectRef { kind, namespace: namespace.into(), name: name.into() };
        self.snapshot.objects.insert(object, known);
        self
    }

    pub(super) fn claims(mut self, name: &str, state: ClaimState) -> Self {
        self.snapshot.claims.insert(name.to_owned(), state);
        self
    }

    pub(super) fn trusts(mut self, bundles: TrustBundleRef, state: TrustBundleState) -> Self {
        self.snapshot.trust_bundles.insert(bundles, state);
        self
    }

    pub(super) fn certified(mut self, certificate: CertificateRef, state: CertificateState) -> Self {
        self.snapshot.certificates.insert(certificate, state);
        self
    }

    /// The token at `path` of the volume `v`, or with that audience. It expires at 2026-11-28T12:00:00Z.
    pub(super) fn holds(mut self, path: &str, token: Result<String, ObjectError>) -> Self {
        let expires: Timestamp = "2026-11-28T12:00:00.5Z".parse().unwrap();
        let token = token.map(|value| Token { value, issued: expires - Duration::from_secs(3600), expires });
        self.snapshot.tokens.insert(("v".into(), path.into()), token);
        self
    }

    /// The spec of a CSIDriver object.
    pub(super) fn driver(mut self, name: &str, spec: Value) -> Self {
        let spec = serde_json::from_value(spec).unwrap();
        self.snapshot.drivers.specs.insert(name.into(), Arc::new(spec));
        self.snapshot.drivers.is_listed = true;
        self
    }

    /// The desired state of the volume `v` with this source.
    pub(super) fn desired_volume(&self, source: Value) -> DesiredVolume {
        let mut volume = source;
        volume["name"] = json!("v");
        let volume: api::Volume = serde_json::from_value(volume).unwrap();
        desired(&volume, &self.context())
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context {
            pod: &self.pod,
            memory_limit: self.memory_limit,
            node: &NODE,
            labels: &self.labels,
            snapshot: &self.snapshot,
            file_label: self.file_label.as_deref(),
        }
    }

    /// The files of that volume.
    pub(super) fn files(&self, source: Value) -> Result<Files, ContentError> {
        match self.desired_volume(source) {
            DesiredVolume::Own(desired) => match desired.content {
                Content::Ours(files) => Ok(files),
                Content::Unknown(error) => Err(error),
                Content::Theirs => panic!("the volume holds what containers put there"),
            },
            desired_volume => panic!("no volume with files: {desired_volume:?}"),
        }
    }
}

/// An object with this text and these bytes.
pub(super) fn found(text: &[(&str, &str)], binary: &[(&str, &[u8])]) -> ObjectState {
    ObjectState::Found(Arc::new(Object {
        text: text.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        binary: binary.iter().map(|(key, value)| (key.to_string(), value.to_vec())).collect(),
        ..Object::default()
    }))
}

/// `mode path=content` of each file.
pub(super) fn texts(files: &Files) -> Vec<String> {
    let text = |(path, file): (&String, &crate::files::File)| {
        format!("{:o} {path}={}", file.mode, String::from_utf8_lossy(&file.data))
    };
    files.iter().map(text).collect()
}

//! Certificates as a source of projected volumes: their private key, and their chain, in one file or in two. Pure.

use hostlet_base::PodRef;
use hostlet_base::causes::{Rule, rule};
use hostlet_pod::objects::{CertificateRef, CertificateState};
use k8s_openapi::api::core::v1::{Pod, PodCertificateProjection};

use super::keys::Defaults;
use super::owned::{owned_file, service_account};
use crate::error::ContentError;
use crate::files::{Files, clean_path};
use crate::model::Context;

/// Causes why a certificate is not available.
pub(super) const RULES: &[Rule] = &[
    rule(
        &["podcertificaterequest", "waits for its signer"],
        "the signer has not issued the certificate of a volume",
        "check that a controller for this signerName runs, and what it says of the PodCertificateRequest (kubectl get \
         podcertificaterequests); hostlet continues once it is issued",
    ),
    rule(
        &["podcertificaterequest was permanently denied"],
        "the signer denied the certificate of a volume, and is not asked again",
        "read its reason, correct the source in spec.volumes or the signer's policy, and create the pod again",
    ),
    rule(
        &["podcertificaterequest was permanently failed"],
        "the signer failed to issue the certificate of a volume, and is not asked again",
        "read its reason and its log, and create the pod again",
    ),
    rule(
        &["the api server has no podcertificaterequests"],
        "the API server does not have this API",
        "upgrade the cluster to Kubernetes 1.37, or switch the API on; hostlet retries automatically",
    ),
    rule(
        &["the feature gate podcertificaterequest is off"],
        "this node is configured to give volumes no certificates",
        "remove the gate from featureGates in the kubelet's configuration, and restart hostlet",
    ),
    rule(
        &["credential bundle is not issued yet", "service account"],
        "the pod's service account cannot be read, to which a certificate belongs",
        "check that it exists, and that the API server permits nodes to read service accounts; hostlet retries automatically",
    ),
    rule(
        &["credential bundle is not issued yet"],
        "the certificate of a volume could not be requested",
        "check that this node can reach the API server; a certificate and its key are never stored, so that a pod cannot start with \
         one while the API server is away; hostlet retries automatically",
    ),
];

/// The certificates in the volumes of a pod.
pub(crate) fn references(pod: &Pod) -> Vec<CertificateRef> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources = volumes.flat_map(|volume| {
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        sources.enumerate().map(|(index, source)| ((volume.name.as_str(), index), source))
    });
    let certificates = sources.filter_map(|(place, source)| Some((place, source.pod_certificate.as_ref()?)));
    certificates.map(|(place, source)| reference(place, source, pod)).collect()
}

/// The certificate of one source, at this index of the volume.
fn reference((volume, index): (&str, usize), source: &PodCertificateProjection, pod: &Pod) -> CertificateRef {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let metadata = &pod.metadata;
    CertificateRef {
        pod: PodRef::new(&text(&metadata.namespace), &text(&metadata.name), &text(&metadata.uid)),
        volume: volume.to_owned(),
        source: index,
        service_account: service_account(pod),
        signer: source.signer_name.clone(),
        key_kind: source.key_type.clone(),
        max_expiration_seconds: source.max_expiration_seconds,
        annotations: source.user_annotations.clone().unwrap_or_default(),
    }
}

/// The files of one source.
pub(super) fn projected(
    place: (&str, usize),
    source: &PodCertificateProjection,
    defaults: Defaults,
    context: &Context<'_>,
) -> Result<Files, ContentError> {
    let certificate = reference(place, source, context.pod);
    let credential = match context.snapshot.certificates.get(&certificate) {
        Some(CertificateState::Issued(credential)) => credential,
        Some(CertificateState::Failed(error)) => return Err(error.clone().into()),
        Some(CertificateState::Pending) | None => {
            let (kind, name) = ("certificate of signer".to_owned(), certificate.signer);
            return Err(ContentError::Pending { kind, name });
        }
    };
    let bundle = [credential.key.as_str(), credential.chain.as_str()].concat();
    let contents = [
        (&source.credential_bundle_path, bundle.as_str()),
        (&source.key_path, credential.key.as_str()),
        (&source.certificate_chain_path, credential.chain.as_str()),
    ];
    let mut files = Files::new();
    for (path, content) in contents {
        if let Some(path) = path.as_deref().filter(|path| !path.is_empty()) {
            let file = owned_file(content.as_bytes().to_vec(), source.user, defaults, context);
            files.insert(clean_path(path)?, file);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hostlet_base::causes::find;
    use hostlet_pod::objects::{CertificateError, Credential, ObjectError};
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::testing::{Pod as TestPod, texts};

    fn volume(paths: Value) -> Value {
        let mut source = paths;
        source["signerName"] = json!("example.com/s");
        source["keyType"] = json!("ED25519");
        json!({"projected": {"defaultMode": 0o644, "sources": [{"downwardAPI": {"items": []}}, {"podCertificate": source}]}})
    }

    fn spec() -> Value {
        json!({"serviceAccountName": "sa", "containers": [{"name": "c"}]})
    }

    /// A pod whose certificate is in this state.
    fn pod(source: &Value, state: CertificateState) -> TestPod {
        let mut volume = source.clone();
        volume["name"] = json!("v");
        let mut spec = spec();
        spec["volumes"] = json!([volume]);
        let pod = TestPod::new(spec);
        let [certificate] = references(&pod.pod).try_into().unwrap();
        pod.certified(certificate, state)
    }

    fn issued() -> CertificateState {
        CertificateState::Issued(Arc::new(Credential { key: "KEY\n".into(), chain: "CHAIN\n".into() }))
    }

    #[test]
    fn key_and_chain_are_in_one_file_or_in_two_and_are_never_printed() {
        let files = |paths: Value| {
            let volume = volume(paths);
            texts(&pod(&volume, issued()).files(volume).unwrap())
        };
        assert_eq!(files(json!({"credentialBundlePath": "both.pem"})), ["644 both.pem=KEY\nCHAIN\n"]);
        let two = json!({"keyPath": "tls/key.pem", "certificateChainPath": "tls/chain.pem"});
        assert_eq!(files(two), ["644 tls/chain.pem=CHAIN\n", "644 tls/key.pem=KEY\n"]);
        let source = volume(json!({"keyPath": "key.pem", "user": 7}));
        let desired = pod(&source, issued()).desired_volume(source.clone());
        assert!(!format!("{desired:?} {:?}", issued()).contains("KEY"), "{desired:?}");
        let files = pod(&source, issued()).files(source).unwrap();
        assert_eq!((files["key.pem"].mode, files["key.pem"].uid), (0o600, Some(7)));
    }

    #[test]
    fn the_reference_says_everything_that_the_request_needs() {
        let annotations = json!({"example.com/a": "b"});
        let source = json!({"credentialBundlePath": "b", "maxExpirationSeconds": 3600, "userAnnotations": annotations});
        let pod = pod(&volume(source), issued());
        let [certificate] = references(&pod.pod).try_into().unwrap();
        let CertificateRef { pod, volume, source, service_account, signer, key_kind, .. } = &certificate;
        assert_eq!((pod.to_string(), pod.uid.as_str()), ("ns/web".to_owned(), "uid-1"));
        assert_eq!((volume.as_str(), *source, service_account.as_str()), ("v", 1, "sa"));
        assert_eq!((signer.as_str(), key_kind.as_str()), ("example.com/s", "ED25519"));
        assert_eq!((certificate.max_expiration_seconds, certificate.annotations.len()), (Some(3600), 1));
    }

    #[test]
    fn why_there_is_no_certificate_has_a_remedy() {
        let source = volume(json!({"credentialBundlePath": "both.pem"}));
        let error = |state| pod(&source, state).files(source.clone()).unwrap_err().to_string();
        let failed = |error| CertificateState::Failed(error);
        let unavailable =
            |text: &str| failed(CertificateError::Unavailable(ObjectError::Unavailable(text.to_owned())));
        let (reason, message) = ("No".to_owned(), "not \"you\"".to_owned());
        let undecided =
            CertificateError::Undecided { request: "ns/req-1".into(), signer: "example.com/s".into() };
        let denied = CertificateError::Denied { reason: reason.clone(), message: message.clone() };
        assert_eq!(
            denied.to_string(),
            "PodCertificateRequest was permanently denied: reason=\"No\" message=\"not \\\"you\\\"\""
        );
        for (state, remedy) in [
            (failed(undecided), "check that a controller"),
            (failed(denied), "read its reason, correct"),
            (failed(CertificateError::Failed { reason, message }), "read its reason and its log"),
            (unavailable("the API server has no PodCertificateRequests: they"), "upgrade the cluster"),
            (unavailable("the feature gate PodCertificateRequest is off in"), "remove the gate"),
            (unavailable("while fetching service account: no"), "check that it exists"),
            (unavailable("connection refused"), "check that this node can reach"),
        ] {
            let error = error(state);
            let rule = find(&[RULES], &error).unwrap();
            assert!(rule.remedy.starts_with(remedy), "{error}: {}", rule.remedy);
        }
        let pending = error(CertificateState::Pending);
        assert_eq!(pending, "timed out waiting for the certificate of signer \"example.com/s\"");
    }
}

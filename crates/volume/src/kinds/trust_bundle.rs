//! Trust anchors of ClusterTrustBundles as a source of projected volumes. Pure.

use hostlet_base::causes::{Rule, rule};
use hostlet_pod::objects::{ObjectError, TrustBundleRef, TrustBundleState};
use k8s_openapi::api::core::v1::{ClusterTrustBundleProjection, Pod};

use super::keys::Defaults;
use super::owned::owned_file;
use crate::error::ContentError;
use crate::files::{Files, clean_path};
use crate::model::Context;

/// Maximum length of a label selector in bytes; upstream's constant.
const MAX_SELECTOR: usize = 100 * 1024;

/// Causes why trust anchors are not available.
pub(super) const RULES: &[Rule] = &[
    rule(
        &["clustertrustbundle", "not found"],
        "the ClusterTrustBundle of a volume does not exist",
        "create it, correct its name in spec.volumes, or set optional: true; hostlet retries automatically",
    ),
    rule(
        &["matched zero clustertrustbundles"],
        "no ClusterTrustBundle of the signer has the labels that a volume selects",
        "create or label one, correct signerName and labelSelector in spec.volumes (a source without labelSelector selects none), or \
         set optional: true; hostlet retries automatically",
    ),
    rule(
        &["the api server has no clustertrustbundles"],
        "the API server does not have this API",
        "upgrade the cluster to Kubernetes 1.37, or switch the API on; hostlet retries automatically",
    ),
    rule(
        &["the feature gate clustertrustbundleprojection is off"],
        "this node is configured to give volumes no trust anchors",
        "remove the gate from featureGates in the kubelet's configuration, and restart hostlet",
    ),
    rule(
        &["while getting clustertrustbundle"],
        "the API server has not returned the ClusterTrustBundles that a volume refers to",
        "check that this node can reach the API server, and that its role system:node may watch clustertrustbundles; hostlet retries \
         automatically",
    ),
];

/// The trust bundles that a pod's volumes refer to.
pub(crate) fn references(pod: &Pod) -> Vec<TrustBundleRef> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources = volumes
        .flat_map(|volume| volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()));
    let bundles = sources.filter_map(|source| source.cluster_trust_bundle.as_ref());
    bundles.filter_map(TrustBundleRef::of).collect()
}

/// The file of one source.
pub(super) fn projected(
    source: &ClusterTrustBundleProjection,
    defaults: Defaults,
    context: &Context<'_>,
) -> Result<Files, ContentError> {
    let path = clean_path(&source.path)?;
    let data = anchors(source, context)?.into_bytes();
    Ok(Files::from([(path, owned_file(data, source.user, defaults, context))]))
}

fn anchors(source: &ClusterTrustBundleProjection, context: &Context<'_>) -> Result<String, ContentError> {
    let failed = |text: String| Err(ContentError::TrustBundles(text));
    let Some(bundles) = TrustBundleRef::of(source) else {
        return failed(
            "ClusterTrustBundle projection requires either name or signerName to be set".to_owned(),
        );
    };
    if let TrustBundleRef::OfSigner { selector: Some(selector), .. } = &bundles
        && selector.len() > MAX_SELECTOR
    {
        let length = selector.len();
        return failed(format!("label selector length ({length}) is larger than {MAX_SELECTOR}"));
    }
    match context.snapshot.trust_bundles.get(&bundles) {
        Some(TrustBundleState::Known(anchors)) if anchors.bundles > 0 || source.optional == Some(true) => {
            Ok(anchors.pem.clone())
        }
        Some(TrustBundleState::Known(_)) => failed(absent(&bundles)),
        Some(TrustBundleState::Failed(error)) => {
            let (ObjectError::NotFound(text) | ObjectError::Forbidden(text) | ObjectError::Unavailable(text)) =
                error;
            failed(format!("while getting ClusterTrustBundle: {text}"))
        }
        Some(TrustBundleState::Pending) | None => {
            failed("ClusterTrustBundle informer has not yet synced".to_owned())
        }
    }
}

/// Why there are no trust anchors, in upstream's words.
fn absent(bundles: &TrustBundleRef) -> String {
    match bundles {
        TrustBundleRef::Named(name) => {
            let object = "clustertrustbundle.certificates.k8s.io";
            format!("while getting ClusterTrustBundle: {object} {name:?} not found")
        }
        TrustBundleRef::OfSigner { .. } => {
            "combination of signerName and labelSelector matched zero ClusterTrustBundles".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hostlet_base::causes::find;
    use hostlet_pod::objects::TrustAnchors;
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::testing::{Pod as TestPod, texts};

    fn known(bundles: usize, pem: &str) -> TrustBundleState {
        TrustBundleState::Known(Arc::new(TrustAnchors { bundles, pem: pem.to_owned() }))
    }

    fn volume(bundle: Value) -> Value {
        let mut bundle = bundle;
        bundle["path"] = json!("ca.pem");
        json!({"projected": {"defaultMode": 0o644, "sources": [{"clusterTrustBundle": bundle}]}})
    }

    fn named() -> TrustBundleRef {
        TrustBundleRef::Named("b".to_owned())
    }

    fn of_signer(selector: Option<&str>) -> TrustBundleRef {
        let selector = selector.map(str::to_owned);
        TrustBundleRef::OfSigner { signer: "example.com/s".to_owned(), selector }
    }

    #[test]
    fn anchors_become_a_file_with_an_owner_like_a_token() {
        let spec =
            |user: Value| json!({"securityContext": {"runAsUser": user}, "containers": [{"name": "c"}]});
        let pod = |user: Value| TestPod::new(spec(user)).trusts(named(), known(1, "PEM"));
        let files = |user: Value, source: Value| pod(user).files(volume(source)).unwrap();
        assert_eq!(texts(&files(Value::Null, json!({"name": "b"}))), ["644 ca.pem=PEM"]);
        let owned = files(json!(7), json!({"name": "b"}));
        assert_eq!((texts(&owned), owned["ca.pem"].uid), (vec!["600 ca.pem=PEM".to_owned()], Some(7)));
        assert_eq!(files(json!(7), json!({"name": "b", "user": 8}))["ca.pem"].uid, Some(8));
    }

    #[test]
    fn what_is_missing_has_upstreams_message_and_a_remedy_or_is_an_empty_file_if_it_is_optional() {
        let selected = json!({"signerName": "example.com/s", "labelSelector": {"matchLabels": {"a": "b"}}});
        let cases = [
            (
                named(),
                json!({"name": "b"}),
                "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"b\" not found",
            ),
            (
                of_signer(Some("a=b")),
                selected,
                "combination of signerName and labelSelector matched zero ClusterTrustBundles",
            ),
            (
                of_signer(None),
                json!({"signerName": "example.com/s"}),
                "combination of signerName and labelSelector matched zero ClusterTrustBundles",
            ),
        ];
        for (bundles, source, message) in cases {
            let pod = || TestPod::new(json!({})).trusts(bundles.clone(), known(0, ""));
            let error = pod().files(volume(source.clone())).unwrap_err().to_string();
            assert_eq!(error, message);
            assert!(find(&[RULES], &error).is_some(), "{error}");
            let mut optional = source;
            optional["optional"] = json!(true);
            assert_eq!(texts(&pod().files(volume(optional)).unwrap()), ["644 ca.pem="]);
        }
    }

    #[test]
    fn what_is_not_known_is_an_error_even_if_it_is_optional() {
        let source = json!({"name": "b", "optional": true});
        let error =
            |state| TestPod::new(json!({})).trusts(named(), state).files(volume(source.clone())).unwrap_err();
        let pending = error(TrustBundleState::Pending).to_string();
        assert_eq!(pending, "ClusterTrustBundle informer has not yet synced");
        let failed = |text: &str| {
            error(TrustBundleState::Failed(ObjectError::Unavailable(text.to_owned()))).to_string()
        };
        for (text, remedy) in [
            ("the API server has no ClusterTrustBundles: they need", "upgrade the cluster"),
            ("the feature gate ClusterTrustBundleProjection is off in", "remove the gate"),
            ("connection refused", "check that this node can reach"),
        ] {
            let rule = find(&[RULES], &failed(text)).unwrap();
            assert!(rule.remedy.starts_with(remedy), "{text}: {}", rule.remedy);
        }
        let neither = TestPod::new(json!({})).files(volume(json!({}))).unwrap_err().to_string();
        assert_eq!(neither, "ClusterTrustBundle projection requires either name or signerName to be set");
    }
}

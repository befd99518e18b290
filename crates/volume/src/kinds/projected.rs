//! Projected volumes: several sources in one volume, tokens of the pod's service account, trust anchors and certificates among them;
//! kept in memory. Pure.

use std::collections::BTreeMap;

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_pod::objects::{ObjectRef, TokenRequest};
use k8s_openapi::api::core::v1::{Pod, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume};

use super::empty_dir::memory;
use super::keys::Defaults;
use super::kind::Kind;
use super::owned::{owned_file, service_account};
use super::written::written;
use super::{config_map, downward_api, pod_certificate, secret, trust_bundle};
use crate::error::ContentError;
use crate::files::{Files, clean_path};
use crate::model::{Context, DesiredVolume, KindDirectory, Provider, TokenKey};

/// Default lifetime of a token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/projected", provider: Provider::Daemon };

/// Causes why the files of several sources are not available.
const RULES: &[Rule] = &[rule(
    &["failed to fetch token"],
    "the API server did not issue a token for the pod's service account",
    "check that the service account exists, and that the API server accepts the audience; hostlet retries \
         automatically",
)];

/// The kind of projected volumes.
pub(super) struct Projected;

impl Kind for Projected {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.projected.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn references(&self, volume: &Volume, namespace: &str) -> Vec<ObjectRef> {
        volume.projected.iter().flat_map(|source| references(source, namespace)).collect()
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.projected.as_ref()?;
        Some(written(DIRECTORY, memory(context), files(&volume.name, source, context), context))
    }

    fn rules(&self) -> Group {
        &[RULES, trust_bundle::RULES, pod_certificate::RULES]
    }
}

/// The tokens in a pod's volumes.
pub(crate) fn token_requests(pod: &Pod) -> BTreeMap<TokenKey, TokenRequest> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| Some((volume, volume.projected.as_ref()?)))
        .flat_map(|(volume, source)| requests_of_volume(&volume.name, source, pod))
        .collect()
}

/// The files of all sources. If two sources have the same path, the later one wins.
fn files(volume: &str, source: &ProjectedVolumeSource, context: &Context<'_>) -> Result<Files, ContentError> {
    let defaults = Defaults { mode: source.default_mode, user: source.default_user };
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for (index, source) in source.sources.iter().flatten().enumerate() {
        let part = if let Some(source) = &source.secret {
            secret::projected(source, defaults, context)
        } else if let Some(source) = &source.config_map {
            config_map::projected(source, defaults, context)
        } else if let Some(source) = &source.downward_api {
            downward_api::from_items(source.items.as_deref().unwrap_or_default(), defaults, context)
        } else if let Some(source) = &source.service_account_token {
            token(volume, source, defaults, context)
        } else if let Some(source) = &source.cluster_trust_bundle {
            trust_bundle::projected(source, defaults, context)
        } else if let Some(source) = &source.pod_certificate {
            pod_certificate::projected((volume, index), source, defaults, context)
        } else {
            Err(ContentError::Unsupported("this source of a projected volume".to_owned()))
        };
        match part {
            Ok(part) => files.extend(part),
            Err(error) => errors.push(error),
        }
    }
    ContentError::all(errors).map(|()| files)
}

fn token(
    volume: &str,
    source: &ServiceAccountTokenProjection,
    defaults: Defaults,
    context: &Context<'_>,
) -> Result<Files, ContentError> {
    let path = clean_path(&source.path)?;
    let key = (volume.to_owned(), path.clone());
    let pending =
        || ContentError::Pending { kind: "token of".to_owned(), name: service_account(context.pod) };
    let value = context.snapshot.tokens.get(&key).ok_or_else(pending)?;
    let data = value.clone().map_err(ContentError::Token)?.value.into_bytes();
    Ok(Files::from([(path, owned_file(data, source.user, defaults, context))]))
}

fn references(source: &ProjectedVolumeSource, namespace: &str) -> Vec<ObjectRef> {
    let of = source.sources.iter().flatten().flat_map(|source| {
        let map = source.config_map.as_ref().map(|source| ObjectRef::config_map(&source.name, namespace));
        let secret = source.secret.as_ref().map(|source| ObjectRef::secret(&source.name, namespace));
        map.into_iter().chain(secret)
    });
    of.collect()
}

/// The tokens of one volume. A token with an invalid path is left out: the volume's content reports it.
fn requests_of_volume(
    volume: &str,
    source: &ProjectedVolumeSource,
    pod: &Pod,
) -> BTreeMap<TokenKey, TokenRequest> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let tokens = source.sources.iter().flatten().filter_map(|source| source.service_account_token.as_ref());
    tokens
        .filter_map(|token| {
            let audience = token.audience.clone().filter(|audience| !audience.is_empty());
            let request = TokenRequest {
                namespace: text(&pod.metadata.namespace),
                service_account: service_account(pod),
                service_account_uid: None,
                audiences: audience.into_iter().collect(),
                expiration_seconds: token.expiration_seconds.unwrap_or(TOKEN_SECONDS),
                pod_name: text(&pod.metadata.name),
                pod_uid: text(&pod.metadata.uid),
            };
            Some(((volume.to_owned(), clean_path(&token.path).ok()?), request))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::testing::{Pod as TestPod, found, texts};
    use hostlet_pod::objects::{ObjectError, ObjectKind};

    /// What the API server puts into every pod.
    fn api_access() -> Value {
        json!({"projected": {"defaultMode": 0o644, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
        ]}})
    }

    fn pod(spec: Value) -> TestPod {
        TestPod::new(spec)
            .knows(ObjectKind::ConfigMap, "kube-root-ca.crt", found(&[("ca.crt", "CA")], &[]))
            .holds("token", Ok("t0ken".into()))
    }

    #[test]
    fn equals_the_stock_kubelets() {
        let spec =
            json!({"securityContext": {"runAsUser": 1000, "fsGroup": 3000}, "containers": [{"name": "c"}]});
        let files = pod(spec).files(api_access()).unwrap();
        assert_eq!(texts(&files), ["644 ca.crt=CA", "644 namespace=ns", "640 token=t0ken"]);
        assert_eq!(files["token"].uid, Some(1000));
        assert_eq!(files["ca.crt"].uid, None);
        let spec = json!({"containers": [{"name": "c"}]});
        let files = pod(spec).files(api_access()).unwrap();
        assert_eq!(texts(&files)[2], "644 token=t0ken");
    }

    #[test]
    fn a_token_belongs_to_the_user_all_containers_share() {
        let uid = |spec| {
            let files = pod(spec).files(api_access()).unwrap();
            (files["token"].uid, files["token"].mode)
        };
        let user = |uid: i64| json!({"runAsUser": uid});
        let of = |first: Value, second: Value| {
            uid(json!({"containers": [
                {"name": "c", "securityContext": first}, {"name": "d", "securityContext": second}]}))
        };
        assert_eq!(of(user(7), user(7)), (Some(7), 0o600));
        assert_eq!(of(user(7), user(8)), (None, 0o644));
        assert_eq!(of(user(7), json!({})), (None, 0o644));
        let init = json!([{"name": "i", "securityContext": user(9)}]);
        let spec = json!({"securityContext": user(7), "initContainers": init, "containers": [{"name": "c"}]});
        assert_eq!(uid(spec), (None, 0o644));
    }

    #[test]
    fn a_token_belongs_to_its_own_user_before_that_of_the_volume() {
        let of = |default: Value, own: Value| {
            let mut source = api_access();
            source["projected"]["defaultUser"] = default;
            source["projected"]["sources"][0]["serviceAccountToken"]["user"] = own;
            let spec = json!({"securityContext": {"runAsUser": 1}, "containers": [{"name": "c"}]});
            let files = pod(spec).files(source).unwrap();
            (files["token"].uid, files["token"].mode)
        };
        assert_eq!(of(Value::Null, Value::Null), (Some(1), 0o600));
        assert_eq!(of(json!(2), Value::Null), (Some(2), 0o600));
        assert_eq!(of(json!(2), json!(3)), (Some(3), 0o600));
    }

    #[test]
    fn the_token_requests_to_the_api_server() {
        let volume: k8s_openapi::api::core::v1::Volume = {
            let mut volume = api_access();
            volume["name"] = json!("v");
            serde_json::from_value(volume).unwrap()
        };
        let source = volume.projected.unwrap();
        let names: Vec<_> = references(&source, "ns").into_iter().map(|object| object.name).collect();
        assert_eq!(names, ["kube-root-ca.crt"]);
        let requests = requests_of_volume("v", &source, &pod(json!({"serviceAccountName": "sa"})).pod);
        let request = &requests[&("v".to_owned(), "token".to_owned())];
        assert_eq!(
            (request.service_account.as_str(), request.expiration_seconds, request.audiences.len()),
            ("sa", 3607, 0)
        );
        assert_eq!((request.pod_name.as_str(), request.pod_uid.as_str()), ("web", "uid-1"));
    }

    #[test]
    fn all_errors_are_reported_including_that_of_a_failed_token() {
        let pod = TestPod::new(json!({})).holds("token", Err(ObjectError::Forbidden("not yours".into())));
        let error = pod.files(api_access()).unwrap_err();
        let expected =
            "[failed to fetch token: not yours, timed out waiting for the configmap \"kube-root-ca.crt\"]";
        assert_eq!(error.to_string(), expected);
        let error = pod.files(json!({"projected": {"sources": [{}]}})).unwrap_err();
        assert_eq!(error.to_string(), "this source of a projected volume is not supported");
    }
}

//! References to API objects, which static pods may not have (upstream `HasAPIObjectReference`). Without an API server, files define
//! some of them.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodSpec, Volume};

use super::{Errors, FieldError, FieldPath, list, text};

/// Which API objects a static pod may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectReferences {
    /// None.
    Forbidden,
    /// ConfigMaps, Secrets and PersistentVolumeClaims, which files define.
    FromFiles,
}

const SECRETS: &str = "secrets";
const CONFIG_MAPS: &str = "config maps";
const CLAIMS: &str = "persistent volume claims";

/// The objects that files can define.
const IN_FILES: [&str; 3] = [SECRETS, CONFIG_MAPS, CLAIMS];

pub(super) fn check(spec: &PodSpec, objects: ObjectReferences, path: &FieldPath, errors: &mut Errors) {
    let mut reject = |path: &FieldPath, what: &str| {
        if objects == ObjectReferences::Forbidden || !IN_FILES.contains(&what) {
            errors.push(FieldError::forbidden(path, format!("a static pod may not reference {what}")));
        }
    };
    // `default` counts as no service account: every pod of a cluster has it.
    if !matches!(text(&spec.service_account_name), "" | "default") {
        reject(&path.child("serviceAccountName"), "a service account");
    }
    if spec.automount_service_account_token == Some(true) {
        reject(&path.child("automountServiceAccountToken"), "a token, which only an API server issues");
    }
    for (index, _) in list(&spec.image_pull_secrets).iter().enumerate() {
        reject(&path.child("imagePullSecrets").index(index), SECRETS);
    }
    for (index, _) in list(&spec.resource_claims).iter().enumerate() {
        reject(&path.child("resourceClaims").index(index), "resource claims");
    }
    if !list::<EphemeralContainer>(&spec.ephemeral_containers).is_empty() {
        reject(&path.child("ephemeralContainers"), "ephemeral containers, which only an API server can add");
    }
    for (index, volume) in list(&spec.volumes).iter().enumerate() {
        check_volume(volume, &path.child("volumes").index(index), &mut reject);
    }
    for (field, containers) in
        [("containers", spec.containers.as_slice()), ("initContainers", list(&spec.init_containers))]
    {
        for (index, container) in containers.iter().enumerate() {
            check_container(container, &path.child(field).index(index), &mut reject);
        }
    }
}

fn check_volume(volume: &Volume, path: &FieldPath, reject: &mut impl FnMut(&FieldPath, &str)) {
    let named = [
        ("secret", volume.secret.is_some(), SECRETS),
        ("configMap", volume.config_map.is_some(), CONFIG_MAPS),
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some(), CLAIMS),
        ("ephemeral", volume.ephemeral.is_some(), "claims that a cluster makes for pods"),
        ("azureFile", volume.azure_file.is_some(), SECRETS),
        ("csi.nodePublishSecretRef", has_publish_secret(volume), SECRETS),
    ];
    for (field, _, what) in named.into_iter().filter(|(_, set, _)| *set) {
        reject(&path.child(field), what);
    }
    let projected = volume.projected.as_ref().map(|projected| list(&projected.sources)).unwrap_or_default();
    for (index, source) in projected.iter().enumerate() {
        let path = path.child("projected").child("sources").index(index);
        let named = [
            ("secret", source.secret.is_some(), SECRETS),
            ("configMap", source.config_map.is_some(), CONFIG_MAPS),
            ("serviceAccountToken", source.service_account_token.is_some(), "service account tokens"),
            ("clusterTrustBundle", source.cluster_trust_bundle.is_some(), "cluster trust bundles"),
            ("podCertificate", source.pod_certificate.is_some(), "pod certificates"),
        ];
        for (field, _, what) in named.into_iter().filter(|(_, set, _)| *set) {
            reject(&path.child(field), what);
        }
    }
}

fn has_publish_secret(volume: &Volume) -> bool {
    volume.csi.as_ref().is_some_and(|source| source.node_publish_secret_ref.is_some())
}

fn check_container(container: &Container, path: &FieldPath, reject: &mut impl FnMut(&FieldPath, &str)) {
    let claims = container.resources.as_ref().map(|resources| list(&resources.claims)).unwrap_or_default();
    for (index, _) in claims.iter().enumerate() {
        reject(&path.child("resources").child("claims").index(index), "resource claims");
    }
    for (index, variable) in list(&container.env).iter().enumerate() {
        let Some(source) = &variable.value_from else { continue };
        let path = path.child("env").index(index).child("valueFrom");
        if source.config_map_key_ref.is_some() {
            reject(&path.child("configMapKeyRef"), CONFIG_MAPS);
        }
        if source.secret_key_ref.is_some() {
            reject(&path.child("secretKeyRef"), SECRETS);
        }
    }
    for (index, source) in list(&container.env_from).iter().enumerate() {
        let path = path.child("envFrom").index(index);
        if source.config_map_ref.is_some() {
            reject(&path.child("configMapRef"), CONFIG_MAPS);
        }
        if source.secret_ref.is_some() {
            reject(&path.child("secretRef"), SECRETS);
        }
    }
}

//! Secret volumes, in memory: secrets are never on disk. Pure.

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_pod::objects::ObjectRef;
use k8s_openapi::api::core::v1::{SecretProjection, SecretVolumeSource, Volume};

use super::empty_dir::memory;
use super::keys::{Defaults, keyed_files};
use super::kind::Kind;
use super::written::written;
use crate::error::ContentError;
use crate::files::Files;
use crate::model::{Context, DesiredVolume, KindDirectory, Provider};

const WHAT: &str = "references non-existent secret";

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/secret", provider: Provider::Daemon };

/// Causes why the files of a Secret are not available.
const RULES: &[Rule] = &[rule(
    &["for volume", "secret", "not found"],
    "the Secret of a volume does not exist",
    "create it in the pod's namespace, correct its name in spec.volumes, or set optional: true; hostlet \
         retries automatically",
)];

/// The kind of Secret volumes.
pub(super) struct Secret;

impl Kind for Secret {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.secret.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn references(&self, volume: &Volume, namespace: &str) -> Vec<ObjectRef> {
        let name = |source: &SecretVolumeSource| source.secret_name.clone().unwrap_or_default();
        volume.secret.iter().map(|source| ObjectRef::secret(&name(source), namespace)).collect()
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.secret.as_ref()?;
        Some(written(DIRECTORY, memory(context), files(source, context), context))
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

fn files(source: &SecretVolumeSource, context: &Context<'_>) -> Result<Files, ContentError> {
    let optional = source.optional.unwrap_or(false);
    let name = source.secret_name.as_deref().unwrap_or_default();
    let object = context.snapshot.object(&ObjectRef::secret(name, context.namespace()), optional)?;
    let defaults = Defaults { mode: source.default_mode, user: source.default_user };
    keyed_files(&object, source.items.as_deref(), defaults, optional, WHAT)
}

/// The same as a source of a projected volume.
pub(super) fn projected(
    source: &SecretProjection,
    defaults: Defaults,
    context: &Context<'_>,
) -> Result<Files, ContentError> {
    let optional = source.optional.unwrap_or(false);
    let object = context.snapshot.object(&ObjectRef::secret(&source.name, context.namespace()), optional)?;
    keyed_files(&object, source.items.as_deref(), defaults, optional, WHAT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::testing::{Pod, found, texts};
    use hostlet_pod::objects::ObjectKind;

    #[test]
    fn a_secret_is_readable_for_its_group_and_no_other() {
        let secret = found(&[], &[("password", b"s3cret")]);
        let source = json!({"secret": {"secretName": "sec", "defaultMode": 0o400}});
        let pod =
            Pod::new(json!({"securityContext": {"fsGroup": 3000}})).knows(ObjectKind::Secret, "sec", secret);
        assert_eq!(texts(&pod.files(source).unwrap()), ["440 password=s3cret"]);
        let items = json!({"secret": {"secretName": "sec", "items": [{"key": "x", "path": "x"}]}});
        assert_eq!(pod.files(items).unwrap_err().to_string(), "references non-existent secret key: x");
    }
}

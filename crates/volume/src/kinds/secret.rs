//! Secret volumes, in memory. Pure.

use k8s_openapi::api::core::v1::{SecretProjection, SecretVolumeSource};

use super::keys::{Defaults, keyed_files};
use crate::desired::Context;
use crate::error::ContentError;
use crate::files::Files;
use hostlet_pod::objects::ObjectRef;

const WHAT: &str = "references non-existent secret";

pub(crate) fn files(source: &SecretVolumeSource, context: &Context<'_>) -> Result<Files, ContentError> {
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

//! ConfigMap volumes. Pure.

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_pod::objects::ObjectRef;
use k8s_openapi::api::core::v1::{ConfigMapProjection, ConfigMapVolumeSource, Volume};

use super::keys::{self, Defaults, keyed_files};
use super::kind::Kind;
use super::written::written;
use crate::error::ContentError;
use crate::files::Files;
use crate::model::{Context, DesiredVolume, KindDirectory, Provider, Store};

const WHAT: &str = "configmap references non-existent config";

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/configmap", provider: Provider::Daemon };

/// Causes why the files of a ConfigMap are not available.
const RULES: &[Rule] = &[rule(
    &["for volume", "configmap", "not found"],
    "the ConfigMap of a volume does not exist",
    "create it in the pod's namespace, correct its name in spec.volumes, or set optional: true; hostlet \
         retries automatically",
)];

/// The kind of ConfigMap volumes.
pub(super) struct ConfigMap;

impl Kind for ConfigMap {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.config_map.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn references(&self, volume: &Volume, namespace: &str) -> Vec<ObjectRef> {
        volume.config_map.iter().map(|source| ObjectRef::config_map(&source.name, namespace)).collect()
    }

    /// Their files are on the disk, as upstream.
    fn is_local_ephemeral(&self, _volume: &Volume) -> bool {
        true
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.config_map.as_ref()?;
        Some(written(DIRECTORY, Store::Disk, files(source, context), context))
    }

    fn rules(&self) -> Group {
        &[keys::RULES, RULES]
    }
}

fn files(source: &ConfigMapVolumeSource, context: &Context<'_>) -> Result<Files, ContentError> {
    let optional = source.optional.unwrap_or(false);
    let object =
        context.snapshot.object(&ObjectRef::config_map(&source.name, context.namespace()), optional)?;
    let defaults = Defaults { mode: source.default_mode, user: source.default_user };
    keyed_files(&object, source.items.as_deref(), defaults, optional, WHAT)
}

/// The same as a source of a projected volume.
pub(super) fn projected(
    source: &ConfigMapProjection,
    defaults: Defaults,
    context: &Context<'_>,
) -> Result<Files, ContentError> {
    let optional = source.optional.unwrap_or(false);
    let object =
        context.snapshot.object(&ObjectRef::config_map(&source.name, context.namespace()), optional)?;
    keyed_files(&object, source.items.as_deref(), defaults, optional, WHAT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::testing::{Pod, found, texts};
    use hostlet_pod::objects::{ObjectError, ObjectKind, ObjectState};

    #[test]
    fn all_or_selected_keys_have_their_modes() {
        let pod = Pod::new(json!({})).knows(
            ObjectKind::ConfigMap,
            "cm",
            found(&[("k", "v"), ("other.txt", "hello")], &[("bin", &[0, 255])]),
        );
        let files = pod.files(json!({"configMap": {"name": "cm", "defaultMode": 0o600}})).unwrap();
        assert_eq!(texts(&files), ["600 bin=\u{0}\u{fffd}", "600 k=v", "600 other.txt=hello"]);
        let items = json!([{"key": "k", "path": "deep/./er/k", "mode": 0o440}, {"key": "bin", "path": "b"}]);
        let files = pod.files(json!({"configMap": {"name": "cm", "items": items}})).unwrap();
        assert_eq!(texts(&files), ["644 b=\u{0}\u{fffd}", "440 deep/er/k=v"]);
    }

    #[test]
    fn files_belong_to_their_user_or_to_that_of_the_volume() {
        let pod =
            Pod::new(json!({})).knows(ObjectKind::ConfigMap, "cm", found(&[("k", "v"), ("l", "w")], &[]));
        let owners = |source: serde_json::Value| {
            let files = pod.files(source).unwrap();
            files.into_iter().map(|(path, file)| (path, file.uid)).collect::<Vec<_>>()
        };
        let of = |path: &str, uid| (path.to_owned(), uid);
        let all = json!({"configMap": {"name": "cm", "defaultUser": 7}});
        assert_eq!(owners(all), [of("k", Some(7)), of("l", Some(7))]);
        let items = json!([{"key": "k", "path": "a", "user": 0}, {"key": "l", "path": "b"}]);
        let some = json!({"configMap": {"name": "cm", "defaultUser": 7, "items": items}});
        assert_eq!(owners(some), [of("a", Some(0)), of("b", Some(7))]);
        let projected = json!({"projected": {"defaultUser": 8, "sources": [
            {"configMap": {"name": "cm", "items": items}},
            {"downwardAPI": {"items": [{"path": "n", "user": 9, "fieldRef": {"fieldPath": "metadata.name"}}]}}
        ]}});
        assert_eq!(owners(projected), [of("a", Some(0)), of("b", Some(8)), of("n", Some(9))]);
    }

    #[test]
    fn missing_objects_and_keys_are_errors_unless_optional() {
        let absent = ObjectState::Failed(ObjectError::NotFound("configmap \"cm\" not found".into()));
        let pod = Pod::new(json!({})).knows(ObjectKind::ConfigMap, "cm", absent);
        let source = |optional: bool| json!({"configMap": {"name": "cm", "optional": optional, "items": [{"key": "x", "path": "x"}]}});
        assert_eq!(pod.files(source(false)).unwrap_err().to_string(), "configmap \"cm\" not found");
        assert!(pod.files(source(true)).unwrap().is_empty());
        let pod = Pod::new(json!({})).knows(ObjectKind::ConfigMap, "cm", found(&[("k", "v")], &[]));
        let error = pod.files(source(false)).unwrap_err();
        assert_eq!(error.to_string(), "configmap references non-existent config key: x");
        assert!(pod.files(source(true)).unwrap().is_empty());
        let silent = ObjectState::Failed(ObjectError::Unavailable("connection refused".into()));
        let pod = Pod::new(json!({})).knows(ObjectKind::ConfigMap, "cm", silent);
        assert_eq!(pod.files(source(true)).unwrap_err().to_string(), "connection refused");
        let pod = Pod::new(json!({}));
        let error = pod.files(source(true)).unwrap_err();
        assert_eq!(error.to_string(), "timed out waiting for the configmap \"cm\"");
    }

    #[test]
    fn no_path_leaves_the_volume() {
        let pod =
            Pod::new(json!({})).knows(ObjectKind::ConfigMap, "cm", found(&[("k", "v"), ("l", "w")], &[]));
        for path in ["../k", "/etc/passwd", "a/../../k", "..data", "", "a/\u{0}"] {
            let items = json!([{"key": "k", "path": path}]);
            pod.files(json!({"configMap": {"name": "cm", "items": items}})).unwrap_err();
        }
        let items = json!([{"key": "k", "path": "a"}, {"key": "l", "path": "a/b"}]);
        let error = pod.files(json!({"configMap": {"name": "cm", "items": items}})).unwrap_err();
        assert_eq!(error.to_string(), "invalid path: is both a file and a directory: a");
    }
}

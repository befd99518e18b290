//! Downward API volumes: fields and resources of the pod as files in memory. Pure.

use std::collections::BTreeMap;

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_base::go_quoted;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, DownwardAPIVolumeSource, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::empty_dir::memory;
use super::keys::Defaults;
use super::kind::Kind;
use super::resource_field::{container_named, resource_value};
use super::written::written;
use crate::error::ContentError;
use crate::files::{Files, clean_path};
use crate::model::{Context, DesiredVolume, KindDirectory, Provider};

const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/downward-api", provider: Provider::Daemon };

/// Causes why fields and resources of the pod are not available.
const RULES: &[Rule] = &[
    rule(
        &["unsupported fieldpath"],
        "a downwardAPI volume refers to an unsupported field",
        "correct fieldRef.fieldPath in spec.volumes",
    ),
    rule(
        &["unsupported container resource"],
        "a downwardAPI volume refers to an unsupported resource",
        "correct resourceFieldRef.resource in spec.volumes",
    ),
    rule(
        &["for volume", "container", "not found"],
        "a downwardAPI volume refers to a container that the pod does not have",
        "correct resourceFieldRef.containerName in spec.volumes",
    ),
];

/// The kind of downwardAPI volumes.
pub(super) struct DownwardApi;

impl Kind for DownwardApi {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.downward_api.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.downward_api.as_ref()?;
        Some(written(DIRECTORY, memory(context), files(source, context), context))
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

fn files(source: &DownwardAPIVolumeSource, context: &Context<'_>) -> Result<Files, ContentError> {
    let defaults = Defaults { mode: source.default_mode, user: source.default_user };
    from_items(source.items.as_deref().unwrap_or_default(), defaults, context)
}

/// The files, also for a source of a projected volume.
pub(super) fn from_items(
    items: &[DownwardAPIVolumeFile],
    defaults: Defaults,
    context: &Context<'_>,
) -> Result<Files, ContentError> {
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for item in items {
        let file = clean_path(&item.path).map_err(ContentError::from).and_then(|path| {
            let data = value(item, context)?.into_bytes();
            Ok((path, defaults.file(data, item.mode, item.user)))
        });
        match file {
            Ok((path, file)) => drop(files.insert(path, file)),
            Err(error) => errors.push(error),
        }
    }
    ContentError::all(errors).map(|()| files)
}

fn value(item: &DownwardAPIVolumeFile, context: &Context<'_>) -> Result<String, ContentError> {
    if let Some(field) = &item.field_ref {
        // Upstream sorts the lines of every value.
        let value = metadata_field(&context.pod.metadata, &field.field_path)?;
        let mut lines: Vec<&str> = value.split('\n').collect();
        lines.sort_unstable();
        return Ok(lines.join("\n"));
    }
    match &item.resource_field_ref {
        Some(field) => {
            let container = field.container_name.as_deref().unwrap_or_default();
            let spec = context.pod.spec.as_ref();
            let spec = spec.ok_or_else(|| ContentError::Container(container.to_owned()))?;
            resource_value(spec, container_named(spec, container)?, field, context.node)
        }
        None => Ok(String::new()),
    }
}

/// A pod field that a volume supports (Kubernetes docs, "Downward API"): unlike the environment, all labels or annotations at
/// once, and no status fields.
fn metadata_field(meta: &ObjectMeta, path: &str) -> Result<String, ContentError> {
    let text = |value: &Option<String>| Ok(value.clone().unwrap_or_default());
    match path {
        "metadata.name" => text(&meta.name),
        "metadata.namespace" => text(&meta.namespace),
        "metadata.uid" => text(&meta.uid),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        path => {
            let one = path.strip_suffix("']").and_then(|path| path.split_once("['"));
            let map = match one {
                Some(("metadata.labels", key)) => Some((&meta.labels, key)),
                Some(("metadata.annotations", key)) => Some((&meta.annotations, key)),
                Some(_) | None => None,
            };
            let (map, key) = map.ok_or_else(|| ContentError::Field(path.to_owned()))?;
            Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
        }
    }
}

/// One line `key="value"` each, with the value quoted as in Go.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", go_quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kinds::testing::{Pod, texts};

    fn of(field: &str) -> Result<Vec<String>, String> {
        let pod = Pod::new(json!({}));
        let item: Value = json!({"path": "x", "fieldRef": {"fieldPath": field}});
        let files = pod.files(json!({"downwardAPI": {"items": [item]}}));
        files.map(|files| texts(&files)).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_of_the_pod() {
        for (field, content) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "uid-1"),
            ("metadata.labels", "app=\"web\"\ntier=\"b\""),
            ("metadata.annotations", "note=\"a \\\"b\\\"\\nc\""),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            // Lines are sorted for every field.
            ("metadata.annotations['note']", "a \"b\"\nc"),
        ] {
            assert_eq!(of(field).unwrap(), [format!("644 x={content}")], "{field}");
        }
        assert_eq!(of("status.podIP").unwrap_err(), "unsupported fieldPath: status.podIP");
        assert_eq!(of("spec['x']").unwrap_err(), "unsupported fieldPath: spec['x']");
    }

    #[test]
    fn all_mistakes_are_reported() {
        let items = json!([
            {"path": "a", "fieldRef": {"fieldPath": "x"}},
            {"path": "../b", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "c", "resourceFieldRef": {"containerName": "none", "resource": "limits.cpu"}}
        ]);
        let error = Pod::new(json!({})).files(json!({"downwardAPI": {"items": items}})).unwrap_err();
        let expected =
            "[unsupported fieldPath: x, invalid path: must not contain '..': ../b, container none not found]";
        assert_eq!(error.to_string(), expected);
    }
}

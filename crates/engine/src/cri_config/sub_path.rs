//! The parts of volumes that a container mounts: `subPath` and `subPathExpr` (Kubernetes docs, "Using subPath with expanded
//! environment variables"). Pure: `volume` finds and mounts them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use hostlet_pod::view::PodView;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::env::{EnvSources, environment};
use super::expand::expand_bytes;
use super::{ConfigError, HostSettings};

/// The parts, by the index of the mount. A mount of a whole volume has none.
pub(crate) fn sub_paths(
    pod: &Pod,
    container: &Container,
    sources: &EnvSources<'_>,
    host: &HostSettings,
) -> Result<BTreeMap<usize, PathBuf>, ConfigError> {
    let mut parts = BTreeMap::new();
    let mut variables = None;
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let part = match (mount.sub_path.as_deref(), mount.sub_path_expr.as_deref()) {
            (_, Some(expression)) if !expression.is_empty() => {
                let environment = match &variables {
                    Some(environment) => environment,
                    None => variables.insert(environment(PodView::from(pod), container, sources, host)?),
                };
                let missing = RefCell::new(None);
                let part = expand_bytes(expression, |name| {
                    let value = environment.get(name);
                    if value.is_none() {
                        missing.borrow_mut().get_or_insert_with(|| name.to_owned());
                    }
                    value
                });
                match missing.into_inner() {
                    Some(name) => return Err(ConfigError::SubPathVariable(name)),
                    None => {
                        String::from_utf8(part).map_err(|_| ConfigError::NotText(expression.to_owned()))?
                    }
                }
            }
            (Some(part), _) => part.to_owned(),
            (None, _) => continue,
        };
        check(&part)?;
        if !part.is_empty() {
            parts.insert(index, part.into());
        }
    }
    Ok(parts)
}

fn check(part: &str) -> Result<(), ConfigError> {
    let has = |unwanted: Component<'_>| Path::new(part).components().any(|component| component == unwanted);
    if has(Component::RootDir) {
        return Err(ConfigError::SubPathAbsolute(part.to_owned()));
    }
    if has(Component::ParentDir) {
        return Err(ConfigError::SubPathBacksteps(part.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cri_config::testing::{host, pod};

    fn parts(mounts: Value) -> Result<BTreeMap<usize, PathBuf>, String> {
        let env = json!([{"name": "NAME", "value": "web"}, {"name": "UP", "value": ".."}, {"name": "EMPTY", "value": ""}]);
        let pod = pod(json!({"containers": [{"name": "c", "env": env, "volumeMounts": mounts}]}));
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let sources = EnvSources { services: Some(Default::default()), ..EnvSources::default() };
        sub_paths(&pod, container, &sources, &host()).map_err(|error| error.to_string())
    }

    #[test]
    fn parts_are_found_by_the_index_of_their_mount() {
        let mounts = json!([
            {"name": "a", "mountPath": "/a"},
            {"name": "a", "mountPath": "/b", "subPath": "x/y"},
            {"name": "a", "mountPath": "/c", "subPathExpr": "$(NAME)/$$(NAME)"},
            {"name": "a", "mountPath": "/d", "subPath": ""},
            {"name": "a", "mountPath": "/e", "subPathExpr": "$(EMPTY)"}
        ]);
        let expected = [(1, "x/y"), (2, "web/$(NAME)")].map(|(index, part)| (index, PathBuf::from(part)));
        assert_eq!(parts(mounts), Ok(BTreeMap::from(expected)));
    }

    #[test]
    fn expressions_without_a_value_or_out_of_the_volume_are_errors() {
        for (expression, error) in [
            ("a/$(NONE)", "missing value for \"NONE\""),
            ("$(UP)/etc", "unable to provision SubPath `../etc`: must not contain '..'"),
            ("/$(NAME)", "error SubPath `/web` must not be an absolute path"),
        ] {
            let mounts = json!([{"name": "a", "mountPath": "/a", "subPathExpr": expression}]);
            assert_eq!(parts(mounts), Err(error.to_owned()), "{expression}");
        }
    }
}

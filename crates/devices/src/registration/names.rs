//! Checks what a device plugin says about itself, in upstream's words. Pure.

use std::path::{Component, Path, PathBuf};

use hostlet_base::resources::is_extended;
use hostlet_base::{go_quoted, names};

/// The only version of the API.
const VERSION: &str = "v1beta1";

/// Why a plugin is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    /// It uses another version of the API.
    #[error("requested API version {} is not supported by kubelet. Supported version is [\"{VERSION}\"]", go_quoted(.0))]
    Version(String),
    /// Its resource is not one of a device plugin.
    #[error(
        "the ResourceName {} is invalid: use a domain and a name, such as \"example.com/gpu\"",
        go_quoted(.0)
    )]
    Resource(String),
    /// Its socket is elsewhere.
    #[error("the endpoint {} is invalid: use the name of a socket in the directory of device plugins", go_quoted(.0))]
    Endpoint(String),
}

/// Checks that the kubelet's version is among those of a plugin.
pub(super) fn check_versions<'a>(versions: impl IntoIterator<Item = &'a str>) -> Result<(), NameError> {
    let versions: Vec<&str> = versions.into_iter().collect();
    match versions.contains(&VERSION) {
        true => Ok(()),
        false => Err(NameError::Version(versions.join(" "))),
    }
}

/// Checks the name of a resource (upstream `IsExtendedResourceName`).
pub(super) fn check_resource(name: &str) -> Result<(), NameError> {
    // A quota may be named after it.
    let is_name = is_extended(name) && names::qualified_name(&format!("requests.{name}")).is_empty();
    if is_name { Ok(()) } else { Err(NameError::Resource(name.to_owned())) }
}

/// The socket of a plugin in the directory.
pub(super) fn socket(dir: &Path, endpoint: &str) -> Result<PathBuf, NameError> {
    let path = Path::new(endpoint.trim_start_matches('/'));
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    match is_inside && !path.as_os_str().is_empty() && !endpoint.contains('\0') {
        true => Ok(dir.join(path)),
        false => Err(NameError::Endpoint(endpoint.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_in_upstreams_words() {
        assert_eq!(check_versions(["v1alpha", "v1beta1"]), Ok(()));
        assert_eq!(
            check_versions(["v2"]).unwrap_err().to_string(),
            "requested API version \"v2\" is not supported by kubelet. Supported version is [\"v1beta1\"]"
        );
        for name in ["nvidia.com/gpu", "devices.kubevirt.io/kvm", "a.b/c_d.e"] {
            assert_eq!(check_resource(name), Ok(()), "{name}");
        }
        let long = format!("{}.com/x", "a".repeat(250));
        for name in
            ["gpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu", "requests.a/b", "a/b/c", "a /b", "", &long]
        {
            let error = check_resource(name).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("the ResourceName {} is invalid", go_quoted(name))),
                "{error}"
            );
        }
    }

    #[test]
    fn a_socket_is_in_the_directory() {
        let dir = Path::new("/d");
        assert_eq!(socket(dir, "gpu.sock"), Ok("/d/gpu.sock".into()));
        assert_eq!(socket(dir, "/sub/gpu.sock"), Ok("/d/sub/gpu.sock".into()));
        for endpoint in ["", "..", "../x.sock", "a/../../x.sock", "/", "a\0b"] {
            assert_eq!(socket(dir, endpoint), Err(NameError::Endpoint(endpoint.to_owned())), "{endpoint}");
        }
    }
}

//! Checks what a plugin says about itself: the bytes of a stranger become names that may be used, shown and logged, or an error for
//! the plugin's author. Pure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hostlet_proto::registration::PluginInfo;

use hostlet_base::one_line;

/// Maximum length of a name: names of drivers are DNS subdomains.
const MAX_NAME: usize = 253;

/// Maximum length of a type.
const MAX_TYPE: usize = 63;

/// Maximum number of versions, and of the bytes of one.
const MAX_VERSIONS: usize = 64;
const MAX_VERSION: usize = 253;

/// Maximum length of an endpoint: what fits into a socket's address.
const MAX_ENDPOINT: usize = 107;

/// Maximum bytes of a quoted value.
const MAX_QUOTED: usize = 80;

/// What is wrong with what a plugin says about itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum InfoError {
    /// A required field is empty.
    #[error("PluginInfo.{field} is empty: set it")]
    Empty { field: &'static str },
    /// A field exceeds its limit, in bytes.
    #[error("PluginInfo.{field} has {length} bytes: use at most {most}")]
    TooLong { field: &'static str, length: usize, most: usize },
    /// There are too many versions.
    #[error("PluginInfo.supported_versions has {count} entries: use at most {MAX_VERSIONS}")]
    TooManyVersions {
        /// Their number.
        count: usize,
    },
    /// A string has characters that no name has.
    #[error("PluginInfo.{field} is \"{value}\": use printable ASCII characters without spaces")]
    Illegal {
        field: &'static str,
        /// Its value, fit to be shown.
        value: String,
    },
    /// The endpoint is a relative path.
    #[error(
        "PluginInfo.endpoint is \"{endpoint}\": use the absolute path of a socket as it is on the host, not in a container"
    )]
    NotAbsolute {
        /// The endpoint, fit to be shown.
        endpoint: String,
    },
    /// The endpoint does not exist.
    #[error(
        "PluginInfo.endpoint {} cannot be used: {why}; listen on it before registering, and name its path as it is on the host",
        endpoint.display()
    )]
    NoEndpoint {
        endpoint: PathBuf,
        /// The error of the operating system.
        why: String,
    },
    /// The endpoint is something else.
    #[error("PluginInfo.endpoint {} is not a socket: listen on it before registering", .0.display())]
    NotASocket(PathBuf),
}

/// What a plugin claims to be, checked as far as is possible without knowing its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginClaim {
    /// `PluginInfo.type`, e.g. `DRAPlugin`.
    pub plugin_type: String,
    /// `PluginInfo.name`: printable ASCII of at most 253 bytes.
    pub name: String,
    /// The socket of its service: an absolute path.
    pub endpoint: PathBuf,
    /// `PluginInfo.supported_versions`, as they are.
    pub versions: Vec<String>,
}

/// Checks the answer to `GetInfo`. `socket` is the registration socket, which is the endpoint of a plugin without another, like
/// upstream.
///
/// # Errors
///
/// What is wrong first.
pub fn check(info: PluginInfo, socket: &Path) -> Result<PluginClaim, InfoError> {
    let PluginInfo { r#type: plugin_type, name, endpoint, supported_versions: versions } = info;
    word("type", &plugin_type, MAX_TYPE)?;
    word("name", &name, MAX_NAME)?;
    if versions.len() > MAX_VERSIONS {
        return Err(InfoError::TooManyVersions { count: versions.len() });
    }
    versions.iter().try_for_each(|version| word("supported_versions", version, MAX_VERSION))?;
    let endpoint = match &*endpoint {
        "" => socket.to_owned(),
        given => absolute(given)?,
    };
    Ok(PluginClaim { plugin_type, name, endpoint, versions })
}

fn word(field: &'static str, value: &str, most: usize) -> Result<(), InfoError> {
    match value.len() {
        0 => Err(InfoError::Empty { field }),
        length if length > most => Err(InfoError::TooLong { field, length, most }),
        _ if value.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(()),
        _ => Err(InfoError::Illegal { field, value: one_line(value, MAX_QUOTED) }),
    }
}

fn absolute(endpoint: &str) -> Result<PathBuf, InfoError> {
    let (field, path) = ("endpoint", Path::new(endpoint));
    let shown = || one_line(endpoint, MAX_QUOTED);
    if endpoint.len() > MAX_ENDPOINT {
        return Err(InfoError::TooLong { field, length: endpoint.len(), most: MAX_ENDPOINT });
    }
    if endpoint.chars().any(char::is_control) {
        return Err(InfoError::Illegal { field, value: shown() });
    }
    // `..` would mean another file for the plugin than for the host if a directory is a link.
    if !path.is_absolute() || path.components().any(|part| part.as_os_str() == OsStr::new("..")) {
        return Err(InfoError::NotAbsolute { endpoint: shown() });
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn info() -> PluginInfo {
        PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: "gpu.example.com".to_owned(),
            endpoint: "/plugins/gpu/dra.sock".to_owned(),
            supported_versions: vec!["1.0.0".to_owned(), "v1beta1.DRAPlugin".to_owned()],
        }
    }

    fn checked(edit: impl FnOnce(&mut PluginInfo)) -> Result<PluginClaim, String> {
        let mut info = info();
        edit(&mut info);
        check(info, Path::new("/r/gpu.sock")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_real_plugins_say_is_accepted() {
        let claim = checked(|_| {}).unwrap();
        assert_eq!((&*claim.plugin_type, &*claim.name), ("DRAPlugin", "gpu.example.com"));
        assert_eq!(claim.endpoint, Path::new("/plugins/gpu/dra.sock"));
        // A plugin with one socket for everything, and the resource name of a device plugin.
        assert_eq!(checked(|info| info.endpoint.clear()).unwrap().endpoint, Path::new("/r/gpu.sock"));
        assert!(checked(|info| info.name = "example.com/gpu".to_owned()).is_ok());
        assert!(checked(|info| info.supported_versions.clear()).is_ok());
    }

    #[test]
    fn nonsense_is_rejected_with_the_field_and_what_to_do() {
        let long = "x".repeat(5000);
        type Case<'c> = (&'c dyn Fn(&mut PluginInfo), &'c str);
        let cases: [Case<'_>; 11] = [
            (&|info| info.r#type.clear(), "PluginInfo.type is empty: set it"),
            (&|info| info.name.clear(), "PluginInfo.name is empty: set it"),
            (&|info| info.name = long.clone(), "PluginInfo.name has 5000 bytes: use at most 253"),
            (&|info| info.r#type = long.clone(), "PluginInfo.type has 5000 bytes: use at most 63"),
            (
                &|info| info.name = "a\u{1b}[2J b".to_owned(),
                "PluginInfo.name is \"a\\u{1b}[2J b\": use printable",
            ),
            (&|info| info.name = "gerät".to_owned(), "PluginInfo.name is \"gerät\": use printable"),
            (&|info| info.supported_versions.push(String::new()), "PluginInfo.supported_versions is empty"),
            (&|info| info.supported_versions = vec!["1".to_owned(); 65], "has 65 entries: use at most 64"),
            (
                &|info| info.endpoint = "dra.sock".to_owned(),
                "PluginInfo.endpoint is \"dra.sock\": use the absolute",
            ),
            (
                &|info| info.endpoint = "/a/../b".to_owned(),
                "PluginInfo.endpoint is \"/a/../b\": use the absolute",
            ),
            (
                &|info| info.endpoint = format!("/{long}"),
                "PluginInfo.endpoint has 5001 bytes: use at most 107",
            ),
        ];
        for (edit, expected) in cases {
            let error = checked(edit).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(error.len() < 200, "{error}");
        }
    }

    proptest! {
        /// Whatever a plugin says, what is accepted can be shown and logged.
        #[test]
        fn what_is_accepted_is_harmless(name in ".{0,300}", kind in ".{0,80}", endpoint in ".{0,150}") {
            let info = PluginInfo { r#type: kind, name, endpoint, ..info() };
            match check(info, Path::new("/r/gpu.sock")) {
                Ok(claim) => {
                    prop_assert!(claim.name.bytes().chain(claim.plugin_type.bytes()).all(|b| b.is_ascii_graphic()));
                    prop_assert!(claim.endpoint.is_absolute());
                    prop_assert!(!claim.endpoint.display().to_string().contains(char::is_control));
                }
                Err(error) => prop_assert!(error.to_string().len() < 300),
            }
        }
    }
}

//! The configuration of credential provider plugins: `CredentialProviderConfig` in one file, or in the files of a directory
//! (Kubernetes docs, "Configure a kubelet image credential provider"). Runs no plugin.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::settings::{CredentialProvider, CredentialProviders, TokenAttributes};
use hostlet_base::yaml::{Document, Flaw, Lines, Problem, decode, parse_documents};
use hostlet_base::{GoDuration, RegistryLocation, names};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::{ConfigError, Place};
use super::files::{TextFile, read_provider_files};
use super::flags::ProcessFlags;
use super::merge::without_nulls;

const KIND: &str = "CredentialProviderConfig";
/// The only version whose providers may get service account tokens.
const CONFIG_V1: &str = "kubelet.config.k8s.io/v1";
const CONFIG_VERSIONS: [&str; 3] =
    [CONFIG_V1, "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];
/// Versions of the protocol that a provider may speak.
const PROTOCOLS: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
];

/// The values of `cacheType`.
const CACHED_BY_ACCOUNT: &str = "ServiceAccount";
const CACHED_BY_TOKEN: &str = "Token";

const CONFIG_FLAG: &str = "image-credential-provider-config";
const BIN_DIR_FLAG: &str = "image-credential-provider-bin-dir";

/// The document. `None` means unset.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct Wire {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    providers: Vec<WireProvider>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct WireProvider {
    name: String,
    match_images: Vec<String>,
    default_cache_duration: Option<GoDuration>,
    api_version: String,
    args: Vec<String>,
    env: Vec<WireVariable>,
    token_attributes: Option<WireTokenAttributes>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct WireTokenAttributes {
    service_account_token_audience: String,
    cache_type: String,
    require_service_account: Option<bool>,
    required_service_account_annotation_keys: Vec<String>,
    optional_service_account_annotation_keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct WireVariable {
    name: String,
    value: String,
}

/// Reads what the flags name; `None` without them.
pub(super) fn read(flags: &ProcessFlags) -> Result<Option<CredentialProviders>, Vec<ConfigError>> {
    let given = |path: &String| (!path.is_empty()).then(|| PathBuf::from(path));
    let (config, bin_dir) =
        (given(&flags.image_credential_provider_config), given(&flags.image_credential_provider_bin_dir));
    let (config, bin_dir) = match (config, bin_dir) {
        (None, None) => return Ok(None),
        (Some(config), Some(bin_dir)) => (config, bin_dir),
        (Some(_), None) => return Err(vec![needs(CONFIG_FLAG, BIN_DIR_FLAG)]),
        (None, Some(_)) => return Err(vec![needs(BIN_DIR_FLAG, CONFIG_FLAG)]),
    };
    let bin_dir = directory(&bin_dir).map_err(|error| vec![error])?;
    let (files, mut errors) = read_provider_files(&config);
    let mut providers = Vec::new();
    let mut names = BTreeSet::new();
    for file in &files {
        match Reader::of(file) {
            Ok(reader) => {
                let (found, flaws) = reader.providers(&bin_dir, &mut names);
                providers.extend(found);
                errors.extend(flaws);
            }
            Err(found) => errors.extend(found),
        }
    }
    if providers.is_empty() && errors.is_empty() {
        // Each of the files may be without, as upstream.
        let (at, path) = (Place::File { path: config, line: None }, "providers".to_owned());
        errors.push(ConfigError::Invalid { at, path, message: "at least one is required".to_owned() });
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Some(CredentialProviders { bin_dir, providers, digest: digest(&files) }))
}

fn needs(flag: &'static str, other: &str) -> ConfigError {
    ConfigError::Flag { flag, message: format!("needs --{other} as well") }
}

/// The absolute path of the directory of executables.
fn directory(path: &Path) -> Result<PathBuf, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), action: "read the directory", source };
    let path = std::path::absolute(path).map_err(failed)?;
    fs::read_dir(&path).map_err(failed)?;
    Ok(path)
}

/// Each file counts with its length, so that no two sets of files have the same digest.
fn digest(files: &[TextFile]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        hasher.update((file.text.len() as u64).to_be_bytes());
        hasher.update(&file.text);
    }
    format!("sha256:{}", hex::encode(hasher.finalize()))
}

/// A decoded document and the lines of its fields.
struct Reader<'f> {
    path: &'f Path,
    lines: Lines,
    wire: Wire,
    version: &'static str,
}

impl<'f> Reader<'f> {
    fn of(file: &'f TextFile) -> Result<Self, Vec<ConfigError>> {
        let at = |line| Place::File { path: file.path.clone(), line };
        let documents = parse_documents(&file.text).map_err(|errors| {
            let syntax = |error: hostlet_base::yaml::DocumentError| ConfigError::Syntax {
                at: at(Some(error.line)),
                column: error.column,
                message: error.message,
            };
            errors.into_iter().map(syntax).collect::<Vec<_>>()
        })?;
        let mut documents = documents.into_iter().filter(|document| !document.value.is_null());
        let (Some(Document { value, lines, .. }), None) = (documents.next(), documents.next()) else {
            let message = format!("needs exactly one document, apiVersion: {CONFIG_V1} and kind: {KIND}");
            return Err(vec![ConfigError::Document { at: at(None), message }]);
        };
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let version = CONFIG_VERSIONS.into_iter().find(|version| *version == text("apiVersion"));
        let Some(version) = version.filter(|_| text("kind") == KIND) else {
            let found = format!("found apiVersion {:?} with kind {:?}", text("apiVersion"), text("kind"));
            let message = format!("{found}; expected apiVersion {CONFIG_V1:?} with kind {KIND:?}");
            let line = lines.line("apiVersion");
            return Err(vec![ConfigError::Document { at: at(line), message }]);
        };
        let (wire, flaws) = decode::<Wire>(&without_nulls(value));
        match wire {
            Some(wire) if flaws.is_empty() => Ok(Self { path: &file.path, lines, wire, version }),
            _ => {
                let error = |Flaw { path, problem }| {
                    let at = at(lines.line(&path));
                    match problem {
                        Problem::Unknown { nearest } => ConfigError::UnknownField { at, path, nearest },
                        Problem::Wrong { message } => ConfigError::WrongValue { at, path, message },
                    }
                };
                Err(flaws.into_iter().map(error).collect())
            }
        }
    }

    fn invalid(&self, path: String, message: impl Into<String>) -> ConfigError {
        let at = Place::File { path: self.path.to_owned(), line: self.lines.line(&path) };
        ConfigError::Invalid { at, path, message: message.into() }
    }

    /// The providers of the file, and what is wrong with them (upstream: `validateCredentialProviderConfig`). `names` are those
    /// seen so far.
    fn providers(
        self,
        bin_dir: &Path,
        names: &mut BTreeSet<String>,
    ) -> (Vec<CredentialProvider>, Vec<ConfigError>) {
        let mut errors = Vec::new();
        let mut providers = Vec::new();
        for (index, wire) in self.wire.providers.iter().enumerate() {
            let mut add = |field: &str, message: String| {
                errors.push(self.invalid(format!("providers[{index}].{field}"), message));
            };
            if let Err(rule) = check_name(&wire.name) {
                add("name", format!("{:?} {rule}", wire.name));
            } else if !names.insert(wire.name.clone()) {
                add("name", format!("{:?} is the name of another provider as well", wire.name));
            } else if let Err(problem) = check_executable(&bin_dir.join(&wire.name)) {
                let dir = bin_dir.display();
                add("name", format!("{:?} {problem} in --{BIN_DIR_FLAG} {dir}", wire.name));
            }
            if !PROTOCOLS.contains(&wire.api_version.as_str()) {
                add("apiVersion", format!("{:?} must be one of {}", wire.api_version, PROTOCOLS.join(", ")));
            }
            if wire.match_images.is_empty() {
                add("matchImages", "at least one item is required".to_owned());
            }
            let mut match_images = Vec::new();
            for (item, text) in wire.match_images.iter().enumerate() {
                match RegistryLocation::parse(text) {
                    Some(location) => match_images.push(location),
                    None => add(
                        &format!("matchImages[{item}]"),
                        format!(
                            "{text:?} is no registry with an optional port and path, such as \"*.example.com/team\""
                        ),
                    ),
                }
            }
            let duration = match wire.default_cache_duration.map(GoDuration::to_std) {
                Some(Some(duration)) => duration,
                Some(None) => {
                    add("defaultCacheDuration", "must not be negative".to_owned());
                    Duration::ZERO
                }
                None => {
                    add("defaultCacheDuration", "is required, such as \"12h\" or \"0s\"".to_owned());
                    Duration::ZERO
                }
            };
            for (item, variable) in wire.env.iter().enumerate() {
                if variable.name.is_empty() || variable.name.contains(['=', '\0']) {
                    add(
                        &format!("env[{item}].name"),
                        format!("{:?} is no name of a variable", variable.name),
                    );
                }
            }
            let token = wire.token_attributes.as_ref().map(|attributes| {
                for (field, rule) in token_rules(attributes, &wire.api_version, self.version) {
                    add(&format!("tokenAttributes{field}"), rule);
                }
                attributes.settings()
            });
            providers.push(CredentialProvider {
                name: wire.name.clone(),
                match_images,
                default_cache_duration: duration,
                api_version: wire.api_version.clone(),
                args: wire.args.clone(),
                env: wire.env.iter().map(|v| (v.name.clone(), v.value.clone())).collect(),
                token,
            });
        }
        (providers, errors)
    }
}

impl WireTokenAttributes {
    fn settings(&self) -> TokenAttributes {
        let keys = |keys: &[String]| keys.iter().cloned().collect();
        TokenAttributes {
            audience: self.service_account_token_audience.clone(),
            is_cached_by_token: self.cache_type == CACHED_BY_TOKEN,
            is_required: self.require_service_account == Some(true),
            required_annotations: keys(&self.required_service_account_annotation_keys),
            optional_annotations: keys(&self.optional_service_account_annotation_keys),
        }
    }
}

/// The rules that a provider's `tokenAttributes` violate, each with the path of the field in them.
fn token_rules(of: &WireTokenAttributes, protocol: &str, version: &str) -> Vec<(String, String)> {
    let mut broken = Vec::new();
    let mut add = |field: &str, rule: String| broken.push((field.to_owned(), rule));
    if version != CONFIG_V1 {
        add("", format!("does not exist in {version}; use {CONFIG_V1}"));
    }
    if protocol != PROTOCOLS[0] {
        add("", format!("needs apiVersion: {}", PROTOCOLS[0]));
    }
    if of.service_account_token_audience.is_empty() {
        add(".serviceAccountTokenAudience", "is required".to_owned());
    }
    if ![CACHED_BY_ACCOUNT, CACHED_BY_TOKEN].contains(&of.cache_type.as_str()) {
        let rule = format!("{:?} must be {CACHED_BY_ACCOUNT} or {CACHED_BY_TOKEN}", of.cache_type);
        add(".cacheType", rule);
    }
    let (required, optional) =
        (&of.required_service_account_annotation_keys, &of.optional_service_account_annotation_keys);
    match of.require_service_account {
        None => add(".requireServiceAccount", "is required".to_owned()),
        Some(false) if !required.is_empty() => {
            add(
                ".requireServiceAccount",
                "must be true with requiredServiceAccountAnnotationKeys".to_owned(),
            );
        }
        Some(_) => {}
    }
    let mut seen = BTreeSet::new();
    for (name, keys) in [("required", required), ("optional", optional)] {
        for (index, key) in keys.iter().enumerate() {
            let field = format!(".{name}ServiceAccountAnnotationKeys[{index}]");
            // As for annotations: the case does not matter.
            for rule in names::qualified_name(&key.to_lowercase()) {
                add(&field, format!("{key:?}: {rule}"));
            }
            if !seen.insert(key) {
                add(&field, format!("{key:?} is listed before"));
            }
        }
    }
    broken
}

/// The name is a file's: it may not lead out of the directory.
fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("is required"),
        "." | ".." => Err("must be the name of an executable"),
        _ if name.contains(['/', ' ', '\0']) => Err("must not contain slashes and spaces"),
        _ => Ok(()),
    }
}

/// Why a file cannot be a provider.
#[derive(Debug, thiserror::Error)]
enum ExecutableError {
    #[error("does not exist")]
    Missing,
    #[error("cannot be read ({0})")]
    Unreadable(std::io::Error),
    #[error("is no file")]
    NoFile,
    #[error("is not executable")]
    NotExecutable,
}

fn check_executable(path: &Path) -> Result<(), ExecutableError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(ExecutableError::NoFile),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Err(ExecutableError::NotExecutable),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(ExecutableError::Missing),
        Err(error) => Err(ExecutableError::Unreadable(error)),
    }
}

#[cfg(test)]
#[path = "credential_providers_tests.rs"]
mod tests;

//! Configurations of credential providers: what is read, and that every error names file, line and field.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tempfile::TempDir;

use super::{CredentialProviders, read};
use crate::ProcessFlags;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";

/// A provider as of line 4.
const ECR: &str = "- name: ecr\n  matchImages: ['*.dkr.ecr.*.amazonaws.com', example.com:5000/team]\n  \
    defaultCacheDuration: 12h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [get]\n  env:\n  \
    - name: AWS_PROFILE\n    value: nodes\n";

/// A directory with executables and files.
struct Host(TempDir);

impl Host {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("conf/sub")).unwrap();
        for (name, mode) in [("ecr", 0o755), ("gcr", 0o700), ("data", 0o644)] {
            let path = dir.path().join("bin").join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, text) in files {
            fs::write(dir.path().join("conf").join(name), text).unwrap();
        }
        Self(dir)
    }

    fn read(&self, config: &str) -> Result<Option<CredentialProviders>, Vec<String>> {
        let path = |name: &str| self.0.path().join(name).to_str().unwrap().to_owned();
        let flags = ProcessFlags {
            image_credential_provider_config: path(config),
            image_credential_provider_bin_dir: path("bin"),
            ..ProcessFlags::default()
        };
        let shown = |error: &crate::ConfigError| error.to_string().replace(&path(""), "");
        read(&flags).map_err(|errors| errors.iter().map(shown).collect())
    }
}

/// The errors in a file.
fn errors(text: &str) -> Vec<String> {
    Host::new(&[("c.yaml", text)]).read("conf/c.yaml").unwrap_err()
}

#[test]
fn a_file_is_read() {
    let host = Host::new(&[("c.yaml", &format!("{HEAD}{ECR}"))]);
    let config = host.read("conf/c.yaml").unwrap().unwrap();
    let [provider] = &config.providers[..] else { panic!("{config:?}") };
    assert_eq!((provider.name.as_str(), provider.match_images.len()), ("ecr", 2));
    assert_eq!(provider.default_cache_duration, Duration::from_secs(12 * 3600));
    assert_eq!(provider.api_version, "credentialprovider.kubelet.k8s.io/v1");
    assert_eq!(provider.args, ["get"]);
    assert_eq!(provider.env, [("AWS_PROFILE".to_owned(), "nodes".to_owned())]);
    assert_eq!(config.bin_dir, host.0.path().join("bin"));
    assert!(config.digest.starts_with("sha256:") && config.digest.len() == 71);
}

#[test]
fn the_files_of_a_directory_are_merged_in_order() {
    let gcr = ECR.replace("ecr\n", "gcr\n");
    let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "CredentialProviderConfig", "providers":
        [{"name": "gcr", "matchImages": ["gcr.io"], "defaultCacheDuration": "0s",
          "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1"}]}"#;
    let second = format!("{HEAD}{ECR}");
    let host = Host::new(&[("2.yaml", &second), ("1.json", json), ("0.yml", HEAD), ("README", "{")]);
    let config = host.read("conf").unwrap().unwrap();
    let names: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["gcr", "ecr"]);

    let twice = Host::new(&[("1.yml", &format!("{HEAD}{gcr}")), ("2.json", json)]);
    let error = "conf/2.json:2: providers[0].name: \"gcr\" is the name of another provider as well";
    assert_eq!(twice.read("conf").unwrap_err(), [error]);
    let none = "conf: the directory has no file that ends in .json, .yaml or .yml";
    assert_eq!(Host::new(&[]).read("conf").unwrap_err(), [none]);
}

#[test]
fn both_flags_are_needed() {
    assert_eq!(read(&ProcessFlags::default()).unwrap(), None);
    let path = || "/none".to_owned();
    let only_config = ProcessFlags { image_credential_provider_config: path(), ..ProcessFlags::default() };
    let only_dir = ProcessFlags { image_credential_provider_bin_dir: path(), ..ProcessFlags::default() };
    let error = |flags| read(&flags).unwrap_err()[0].to_string();
    assert_eq!(
        error(only_config),
        "--image-credential-provider-config: needs --image-credential-provider-bin-dir as well"
    );
    assert_eq!(
        error(only_dir.clone()),
        "--image-credential-provider-bin-dir: needs --image-credential-provider-config as well"
    );
    let both = ProcessFlags { image_credential_provider_config: path(), ..only_dir };
    assert_eq!(error(both), "/none: cannot read the directory");
    assert_eq!(Host::new(&[]).read("conf/none").unwrap_err(), ["conf/none: cannot open the file"]);
}

#[test]
fn every_error_names_line_and_field() {
    for (from, to, expected) in [
        (
            "name: ecr",
            "name: ../ecr",
            "conf/c.yaml:4: providers[0].name: \"../ecr\" must not contain slashes and spaces",
        ),
        (
            "name: ecr",
            "name: ..",
            "conf/c.yaml:4: providers[0].name: \"..\" must be the name of an executable",
        ),
        (
            "name: ecr",
            "name: acr",
            "providers[0].name: \"acr\" does not exist in --image-credential-provider-bin-dir bin",
        ),
        ("name: ecr", "name: data", "providers[0].name: \"data\" is not executable"),
        (
            "apiVersion: cred",
            "apiversion: cred",
            "conf/c.yaml:7: unknown field \"providers[0].apiversion\" (did you mean \"apiVersion\"?)",
        ),
        (
            "io/v1\n  args",
            "io/v2\n  args",
            "conf/c.yaml:7: providers[0].apiVersion: \"credentialprovider.kubelet.k8s.io/v2\" must be one of",
        ),
        (
            "['*.dkr.ecr.*.amazonaws.com', example.com:5000/team]",
            "[]",
            "conf/c.yaml:5: providers[0].matchImages: at least one item is required",
        ),
        (
            "example.com:5000/team",
            "'a b.io'",
            "conf/c.yaml:5: providers[0].matchImages[1]: \"a b.io\" is no registry",
        ),
        ("12h", "-1s", "conf/c.yaml:6: providers[0].defaultCacheDuration: must not be negative"),
        (
            "defaultCacheDuration: 12h",
            "defaultCacheDuration: null",
            "providers[0].defaultCacheDuration: is required",
        ),
        ("12h", "12", "conf/c.yaml:6: providers[0].defaultCacheDuration: found integer `12`"),
        (
            "name: AWS_PROFILE",
            "name: A=B",
            "conf/c.yaml:10: providers[0].env[0].name: \"A=B\" is no name of a variable",
        ),
    ] {
        let found = errors(&format!("{HEAD}{}", ECR.replace(from, to)));
        assert!(found.iter().any(|error| error.contains(expected)), "{expected}: {found:?}");
    }
    let empty = errors(&HEAD.replace("providers:", "providers: []"));
    assert_eq!(empty, ["conf/c.yaml: providers: at least one is required"]);
}

/// Token attributes as of line 12.
const TOKEN: &str = "  tokenAttributes:\n    serviceAccountTokenAudience: r.io\n    cacheType: Token\n    \
    requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [r.io/Role]\n    \
    optionalServiceAccountAnnotationKeys: [r.io/tenant]\n";

#[test]
fn token_attributes_are_read_and_checked() {
    let host = Host::new(&[("c.yaml", &format!("{HEAD}{ECR}{TOKEN}"))]);
    let config = host.read("conf/c.yaml").unwrap().unwrap();
    let token = config.providers[0].token.clone().unwrap();
    assert_eq!((token.audience.as_str(), token.is_cached_by_token, token.is_required), ("r.io", true, true));
    assert_eq!(token.required_annotations, ["r.io/Role".to_owned()].into());
    assert_eq!(token.optional_annotations, ["r.io/tenant".to_owned()].into());

    for (from, to, expected) in [
        (
            "Audience: r.io",
            "Audience: ''",
            "c.yaml:13: providers[0].tokenAttributes.serviceAccountTokenAudience: is required",
        ),
        (
            "Token\n",
            "Pod\n",
            "c.yaml:14: providers[0].tokenAttributes.cacheType: \"Pod\" must be ServiceAccount or Token",
        ),
        ("requireServiceAccount: true", "requireServiceAccount: null", "requireServiceAccount: is required"),
        (
            "requireServiceAccount: true",
            "requireServiceAccount: false",
            "c.yaml:15: providers[0].tokenAttributes.requireServiceAccount: must be true",
        ),
        ("[r.io/Role]", "[a b]", "requiredServiceAccountAnnotationKeys[0]: \"a b\": name part must"),
        (
            "[r.io/tenant]",
            "[r.io/Role]",
            "c.yaml:17: providers[0].tokenAttributes.optionalServiceAccountAnnotationKeys[0]: \"r.io/Role\" is listed before",
        ),
    ] {
        let found = errors(&format!("{HEAD}{ECR}{}", TOKEN.replace(from, to)));
        assert!(found.iter().any(|error| error.contains(expected)), "{expected}: {found:?}");
    }
    let older = errors(&format!("{}{ECR}{TOKEN}", HEAD.replace("v1", "v1alpha1")));
    assert!(older[0].contains("does not exist in kubelet.config.k8s.io/v1alpha1"), "{older:?}");
    let older = errors(&format!("{HEAD}{}{TOKEN}", ECR.replace("io/v1\n", "io/v1beta1\n")));
    assert!(older[0].contains("needs apiVersion: credentialprovider.kubelet.k8s.io/v1"), "{older:?}");
}

#[test]
fn only_a_credential_provider_config_is_accepted() {
    for (text, expected) in [
        ("", "conf/c.yaml: needs exactly one document"),
        ("a: 1\n---\nb: 1\n", "conf/c.yaml: needs exactly one document"),
        ("a: [", "conf/c.yaml:1"),
        ("kind: CredentialProviderConfig\n", "found apiVersion \"\" with kind \"CredentialProviderConfig\""),
        (
            "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n",
            "with kind \"KubeletConfiguration\"; expected",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v2\nkind: CredentialProviderConfig\n",
            "conf/c.yaml:1: found apiVersion \"kubelet.config.k8s.io/v2\"",
        ),
    ] {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}

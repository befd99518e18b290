//! Which credentials apply to which image, and what configurations are read.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn login(user: &str) -> Login {
    Login::new(user, "pw")
}

fn secret(name: &str) -> ObjectIdentity {
    let [namespace, uid] = ["default", "u"].map(str::to_owned);
    ObjectIdentity { namespace, name: name.to_owned(), uid }
}

/// A keyring whose locations have logins named by them.
fn keyring(locations: &[&str]) -> Keyring {
    let logins = locations.iter().map(|location| (location.to_string(), login(location))).collect();
    let mut keyring = Keyring::default();
    keyring.add(DockerConfig { logins }, &LoginSource::Node);
    keyring
}

fn users(keyring: &Keyring, image: &str) -> Vec<String> {
    keyring.lookup(image).into_iter().map(|found| found.login.username).collect()
}

#[test]
fn locations_apply_as_upstream() {
    for (location, image, applies) in [
        ("quay.io", "quay.io/coreos/etcd", true),
        ("https://quay.io", "quay.io/coreos/etcd", true),
        ("http://quay.io/", "quay.io/coreos/etcd", true),
        ("https://quay.io/v1/", "quay.io/coreos/etcd", true),
        ("quay.io/v2/coreos", "quay.io/coreos/etcd", true),
        ("quay.io/coreos", "quay.io/coreos/etcd", true),
        // A prefix of the text, not of the components.
        ("quay.io/cor", "quay.io/coreos/etcd", true),
        ("quay.io/other", "quay.io/coreos/etcd", false),
        ("quay.io:443", "quay.io/coreos/etcd", false),
        ("quay.io", "quay.io:443/coreos/etcd", false),
        ("quay.io:443", "quay.io:443/coreos/etcd", true),
        ("*.io", "quay.io/coreos/etcd", true),
        ("q*y.io", "quay.io/coreos/etcd", true),
        ("*", "quay.io/coreos/etcd", false),
        ("*.io", "a.quay.io/coreos/etcd", false),
        ("*.*.io", "a.quay.io/coreos/etcd", true),
        ("*.quay.io:*", "a.quay.io:5000/etcd", false),
        ("*.quay.io:5000/e", "a.quay.io:5000/etcd", true),
        ("docker.io", "docker.io/library/busybox", true),
        ("docker.io/library", "docker.io/library/busybox", true),
        ("index.docker.io", "docker.io/library/busybox", true),
        ("https://index.docker.io/v1/", "docker.io/library/busybox", true),
        ("https://index.docker.io/v1/", "quay.io/busybox", false),
        ("registry-1.docker.io", "docker.io/library/busybox", false),
        ("user@quay.io/coreos?x=1#y", "quay.io/coreos/etcd", true),
        ("qu ay.io", "quay.io/coreos/etcd", false),
        ("quay.io:port", "quay.io:port/coreos/etcd", false),
        ("", "quay.io/coreos/etcd", false),
    ] {
        let found = users(&keyring(&[location]), image);
        assert_eq!(!found.is_empty(), applies, "{location} for {image}");
    }
}

#[test]
fn more_specific_locations_are_tried_first_and_the_default_registry_only_alone() {
    let several = keyring(&["quay.io", "quay.io/coreos", "*.io", "quay.io/coreos/etcd", "gcr.io"]);
    assert_eq!(
        users(&several, "quay.io/coreos/etcd"),
        ["quay.io/coreos/etcd", "quay.io/coreos", "quay.io", "*.io"]
    );
    let hub = keyring(&["index.docker.io", "docker.io"]);
    assert_eq!(users(&hub, "docker.io/library/busybox"), ["docker.io"]);

    let mut twice = keyring(&["quay.io"]);
    let second = DockerConfig { logins: [("https://quay.io".to_owned(), login("second"))].into() };
    twice.add(second, &LoginSource::Node);
    assert_eq!(users(&twice, "quay.io/a"), ["quay.io", "second"], "in the order of the Secrets");
}

#[test]
fn both_formats_are_read_and_auth_has_precedence() {
    let auth = BASE64_STANDARD.encode("me:se:cret");
    let entries = json!({
        "a.io": {"auth": auth, "username": "ignored", "password": "ignored", "email": "me@a.io"},
        "b.io": {"username": "you", "password": "pw"},
        "c.io": {"auth": BASE64_STANDARD_NO_PAD.encode("x:")},
        "d.io": {"auth": format!("{}\n", BASE64_STANDARD.encode("n:l"))},
        "e.io": null,
    });
    let expected: Vec<(&str, &str, &str)> = vec![
        ("a.io", "me", "se:cret"),
        ("b.io", "you", "pw"),
        ("c.io", "x", ""),
        ("d.io", "n", "l"),
        ("e.io", "", ""),
    ];
    let old = DockerConfig::from_dockercfg(entries.to_string().as_bytes()).unwrap();
    let new = json!({"auths": entries, "credsStore": "desktop", "HttpHeaders": {"a": "b"}}).to_string();
    assert_eq!(DockerConfig::from_config_json(new.as_bytes()).unwrap(), old);
    let read: Vec<(&str, &str, &str)> = old
        .logins
        .iter()
        .map(|(location, login)| (location.as_str(), login.username.as_str(), login.password.as_str()))
        .collect();
    assert_eq!(read, expected);
    for empty in ["{}", "null", r#"{"auths": null}"#] {
        assert_eq!(DockerConfig::from_config_json(empty.as_bytes()), Ok(DockerConfig::default()));
    }
}

#[test]
fn errors_and_debug_output_contain_no_credentials() {
    let secret = BASE64_STANDARD.encode("hunter2");
    let malformed = json!({"auths": {"a.io": {"auth": secret}}}).to_string();
    let error = DockerConfig::from_config_json(malformed.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "the auth field of a.io must be base64(username:password)");
    let wrong_type = r#"{"auths": {"a.io": {"password": 5, "username": ["hunter2"]}}}"#;
    let error = DockerConfig::from_config_json(wrong_type.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "invalid JSON of registry credentials at line 1, column 33");
    assert!(DockerConfig::from_config_json(b"{").is_err());
    let config = DockerConfig::from_dockercfg(br#"{"a.io": {"username": "hunter2", "password": "hunter2"}}"#);
    assert!(!format!("{config:?}").contains("hunter2"));
    let hash = login("hunter2").hash();
    assert!(hash.len() == 64 && hash != login("hunter").hash());
    assert_ne!(Login::new("ab", "c").hash(), Login::new("a", "bc").hash());
}

#[test]
fn hashes_of_logins_are_those_of_the_stock_kubelet() {
    let hash = |entry: serde_json::Value| {
        let config = DockerConfig::from_dockercfg(json!({"a.io": entry}).to_string().as_bytes()).unwrap();
        config.logins["a.io"].hash()
    };
    let auth = BASE64_STANDARD.encode("me:p<w>");
    assert_eq!(
        hash(json!({"username": "me", "password": "pw"})),
        "46f0422e67d24e06f51d06a9b5c3ecb8442ce99f3895fab789cb907bac4b27a5"
    );
    assert_eq!(
        hash(json!({"auth": auth, "email": "me@a.io"})),
        "c80953dde2fe651cfbd3f06d37b695312d430814ed6f7d1e2241f97ac274d5e1"
    );
    assert_eq!(hash(json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

#[test]
fn only_the_types_of_pull_secrets_count() {
    let json = br#"{"auths": {"a.io": {"username": "u", "password": "p"}}}"#.as_slice();
    let of = |secret_type: &str, key: &'static str| {
        PullSecret::new(secret("s"), secret_type, |asked| (asked == key).then_some(json))
    };
    assert!(of("kubernetes.io/dockerconfigjson", ".dockerconfigjson").unwrap().config().is_ok());
    assert!(of("kubernetes.io/dockercfg", ".dockercfg").unwrap().config().is_ok());
    for (secret_type, key) in [
        ("Opaque", ".dockerconfigjson"),
        ("kubernetes.io/dockerconfigjson", ".dockercfg"),
        ("kubernetes.io/dockercfg", ".dockerconfigjson"),
    ] {
        assert!(of(secret_type, key).is_none(), "{secret_type} with {key}");
    }
    let broken = PullSecret::new(secret("s"), "kubernetes.io/dockercfg", |_| Some(b"x".as_slice())).unwrap();
    let message = broken.config().unwrap_err().to_string();
    assert_eq!(message, r#"image pull secret "s": invalid JSON of registry credentials at line 1, column 1"#);
}

#[tokio::test]
async fn the_pods_credentials_come_before_those_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["root", "work", "home/.docker", "top"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    let write = |path: &str, user: &str| {
        let auths = json!({"auths": {"a.io": {"username": user, "password": "p"}}});
        fs::write(at(path), auths.to_string()).unwrap();
    };
    fs::write(at("top/.dockercfg"), r#"{"a.io": {"username": "old", "password": "p"}}"#).unwrap();
    let files = DockerConfigFiles::new(&at("root"), &at("work"), Some(&at("home")), &at("top"));
    let credentials = RegistryCredentials::new(files);
    let data = br#"{"auths": {"a.io": {"username": "pod", "password": "p"}}}"#.as_slice();
    let of_pod = PullSecret::new(secret("s"), "kubernetes.io/dockerconfigjson", |_| Some(data)).unwrap();
    let found = async |secrets: &[PullSecret]| -> Vec<String> {
        let logins = credentials.of("a.io/image", secrets, None).await.unwrap();
        logins.into_iter().map(|found| found.login.username).collect()
    };
    assert_eq!(found(&[]).await, ["old"]);
    write("home/.docker/config.json", "home");
    assert_eq!(found(&[]).await, ["home"]);
    write("root/config.json", "root");
    assert_eq!(found(&[of_pod]).await, ["pod", "root"]);
    // An invalid file is skipped.
    fs::write(at("root/config.json"), "{").unwrap();
    assert_eq!(found(&[]).await, ["home"]);
    assert!(RegistryCredentials::default().of("a.io/image", &[], None).await.unwrap().is_empty());
    let none = DockerConfigFiles::new(Path::new("/nonexistent"), &at("work"), None, &at("work"));
    assert!(RegistryCredentials::new(none).of("a.io/image", &[], None).await.unwrap().is_empty());
}

proptest! {
    /// Any text can be a location, and a location without globs applies to itself.
    #[test]
    fn any_location_is_read(location in "[a-z*.:/@\\[\\]?é -]{0,30}", image in "[a-z.:/*]{0,30}") {
        keyring(&[&location]).lookup(&image);
    }

    #[test]
    fn a_star_stands_for_any_text(label in "[a-z]{1,9}", cut in 0usize..9, rest in 0usize..9) {
        let cut = cut.min(label.len());
        let rest = rest.clamp(cut, label.len());
        let glob = format!("{}*{}.io", &label[..cut], &label[rest..]);
        prop_assert_eq!(users(&keyring(&[&glob]), &format!("{label}.io/a")), [glob.clone()]);
    }
}

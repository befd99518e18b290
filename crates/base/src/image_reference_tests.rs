//! References to images, valid and not, with upstream's errors.

use proptest::prelude::*;

use super::*;

const SHA: &str = "sha256:9a7b4d0e1f2c3b4a5968778695a4b3c2d1e0f0e1d2c3b4a5968778695a4b3c2d";

#[test]
fn references_are_parsed() {
    let with_digest = format!("busybox@{SHA}");
    let with_both = format!("busybox:1@{SHA}");
    for (image, name, tag, digest) in [
        ("busybox", "docker.io/library/busybox", None, None),
        ("busybox:1.37", "docker.io/library/busybox", Some("1.37"), None),
        ("index.docker.io/busybox", "docker.io/library/busybox", None, None),
        ("user/app", "docker.io/user/app", None, None),
        ("localhost/app", "localhost/app", None, None),
        ("localhost:5000/app:v1", "localhost:5000/app", Some("v1"), None),
        ("[::1]:5000/app", "[::1]:5000/app", None, None),
        ("REGISTRY/app", "REGISTRY/app", None, None),
        ("foo_bar.x/app", "foo_bar.x/app", None, None),
        ("registry.k8s.io/e2e/a__b---c:_t", "registry.k8s.io/e2e/a__b---c", Some("_t"), None),
        (&with_digest, "docker.io/library/busybox", None, Some(SHA)),
        (&with_both, "docker.io/library/busybox", Some("1"), Some(SHA)),
    ] {
        assert_eq!(ImageReference::parse(image), Ok(ImageReference { name: name.to_owned(), tag, digest }));
    }
}

#[test]
fn an_invalid_reference_has_upstreams_error() {
    let identifier = "a".repeat(64);
    let long = "a/".repeat(127) + "aa";
    let wrong_length = format!("busybox@sha256:{}", "a".repeat(63));
    let wrong_case = format!("busybox@{}", SHA.replace('b', "B"));
    let wrong_algorithm = format!("a/b:t@md5:{}", "a".repeat(32));
    for (image, message) in [
        ("", "invalid reference format"),
        (":1", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("a/", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("a:b:c", "invalid reference format"),
        ("a:", "invalid reference format"),
        ("a@sha256:1", "invalid reference format"),
        ("a___b", "invalid reference format"),
        ("reg.io:port/app", "invalid reference format"),
        ("Busybox", "invalid reference format: repository name (library/Busybox) must be lowercase"),
        ("FOO_x/bar", "repository name must be lowercase"),
        (&long, "repository name must not be more than 255 characters"),
        (&wrong_length, "invalid checksum digest length"),
        (&wrong_algorithm, "unsupported digest algorithm"),
    ] {
        assert_eq!(ImageReference::parse(image).unwrap_err().to_string(), message, "{image}");
    }
    assert_eq!(ImageReference::parse(&identifier), Err(ImageReferenceError::Identifier(identifier.clone())));
    assert!(matches!(
        ImageReference::parse(&wrong_case),
        Err(ImageReferenceError::UppercaseName(_) | ImageReferenceError::DigestFormat)
    ));
    assert!(ImageReference::parse(&format!("r.io/a:{}", "t".repeat(128))).is_ok());
    assert!(ImageReference::parse(&format!("r.io/a:{}", "t".repeat(129))).is_err());
}

#[test]
fn latest_is_appended_as_text() {
    for (image, normal) in [
        ("busybox", "busybox:latest"),
        ("r.io:5000/a", "r.io:5000/a:latest"),
        ("busybox:1", "busybox:1"),
        ("busybox:latest", "busybox:latest"),
    ] {
        assert_eq!(with_default_tag(image).unwrap(), normal);
    }
    let digested = format!("busybox@{SHA}");
    assert_eq!(with_default_tag(&digested).unwrap(), digested);
}

prop_compose! {
    fn well_formed()(
        domain in "(([a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?\\.){1,3}[a-z]{2,4}(:[0-9]{1,5})?/)?",
        path in "[a-z0-9]{1,6}((\\.|_|__|-{1,3})[a-z0-9]{1,4}){0,2}(/[a-z0-9]{1,6}){0,3}",
        tag in "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,20})?",
        digest in "(@sha256:[a-f0-9]{64})?",
    ) -> (String, String, String) {
        (format!("{domain}{path}"), tag, digest)
    }
}

proptest! {
    #[test]
    fn every_text_of_the_grammar_is_parsed((name, tag, digest) in well_formed()) {
        let image = format!("{name}{tag}{digest}");
        let parsed = ImageReference::parse(&image).unwrap();
        prop_assert_eq!(parsed.tag.map(|t| format!(":{t}")).unwrap_or_default(), tag);
        prop_assert_eq!(parsed.digest.map(|d| format!("@{d}")).unwrap_or_default(), digest);
        prop_assert!(parsed.name.ends_with(&name) || name.starts_with(LEGACY_DEFAULT_DOMAIN));
    }

    /// For any text: no panic, and appending the default tag is idempotent.
    #[test]
    fn a_default_tag_is_given_once(image in "[a-zA-Z0-9:/@._ é-]{0,40}") {
        if let Ok(normal) = with_default_tag(&image) {
            prop_assert!(normal.starts_with(&image));
            prop_assert_eq!(with_default_tag(&normal).unwrap(), normal.clone());
        }
    }
}

//! The rules by which names and values of drivers become legal in `resource.k8s.io`, or are rejected (`docs/dra.md`). Pure.
//!
//! The limits are the API server's (`pkg/apis/resource/validation` of Kubernetes 1.37). A device's name must not depend on
//! other devices, because claims refer to it.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use hostlet_base::names;

/// Maximum length of an attribute's or capacity's identifier, in bytes.
pub(super) const IDENTIFIER_MAX: usize = 32;
/// Maximum length of a domain, also of a driver's name, in bytes.
pub(super) const DOMAIN_MAX: usize = 63;
/// Maximum length of a string or version, in bytes.
pub(super) const VALUE_MAX: usize = 64;
/// Maximum number of attributes and capacities of a device.
pub(super) const ENTRIES_MAX: usize = 32;
/// Maximum number of values of a device's attributes, counting each item of a list.
pub(super) const VALUES_MAX: usize = 48;

/// The first 32 bits of a name's SHA-256 as hexadecimal digits.
pub(super) fn short_hash(name: &str) -> String {
    hex::encode(&Sha256::digest(name)[..4])
}

/// `name` itself if it is a DNS label. Otherwise in lower case, with `-` for every other character and a hash of the original: so
/// different names remain different.
pub(super) fn device_name(name: &str) -> Cow<'_, str> {
    if names::dns_label(name).is_empty() {
        return name.into();
    }
    let hash = short_hash(name);
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let room = names::LABEL_MAX - hash.len() - 1;
    let stem: String = name.chars().map(legal).skip_while(|c| *c == '-').take(room).collect();
    let stem = match stem.trim_end_matches('-') {
        "" => "device",
        stem => stem,
    };
    format!("{stem}-{hash}").into()
}

/// Why an attribute has no legal name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameRejected {
    /// Nothing is left of it.
    #[error("left out: its name is empty")]
    Empty,
    /// The part before the slash is no domain.
    #[error(
        "left out: the part of its name before \"/\" must be a DNS subdomain of at most {DOMAIN_MAX} characters"
    )]
    Domain,
}

/// The name of an attribute or capacity: a C identifier of at most 32 characters, with an optional domain. The driver's own domain
/// is removed, because it is the default.
pub(super) fn attribute_name<'n>(driver: &str, name: &'n str) -> Result<Cow<'n, str>, NameRejected> {
    let (domain, identifier) = match name.split_once('/') {
        Some((domain, identifier)) if domain == driver => (None, identifier),
        Some((domain, identifier)) => (Some(domain), identifier),
        None => (None, name),
    };
    if identifier.is_empty() {
        return Err(NameRejected::Empty);
    }
    if domain.is_some_and(|domain| !is_domain(domain)) {
        return Err(NameRejected::Domain);
    }
    Ok(match (domain, legal_identifier(identifier)) {
        (None, identifier) => identifier,
        (Some(_), Cow::Borrowed(_)) => name.into(),
        (Some(domain), Cow::Owned(identifier)) => format!("{domain}/{identifier}").into(),
    })
}

/// Whether this can be a driver's name or the domain of an attribute.
pub(super) fn is_domain(text: &str) -> bool {
    text.len() <= DOMAIN_MAX && names::dns_subdomain(&text.to_ascii_lowercase()).is_empty()
}

/// `_` for every character that a C identifier cannot have, and before a digit at the start; cut with a hash if too long.
fn legal_identifier(text: &str) -> Cow<'_, str> {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts_well = !text.starts_with(|c: char| c.is_ascii_digit());
    if starts_well && text.len() <= IDENTIFIER_MAX && text.bytes().all(is_legal) {
        return text.into();
    }
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let prefix = if starts_well { "" } else { "_" };
    let mut identifier: String =
        prefix.chars().chain(text.chars().map(legal)).take(IDENTIFIER_MAX + 1).collect();
    if identifier.len() > IDENTIFIER_MAX {
        let hash = short_hash(text);
        identifier.truncate(IDENTIFIER_MAX - hash.len() - 1);
        identifier = format!("{identifier}_{hash}");
    }
    identifier.into()
}

/// Whether this is a semantic version (<https://semver.org>, 2.0.0), as the API server checks it.
pub(super) fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre_release) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let is_identifier =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits && (part == "0" || !part.starts_with('0'))
    };
    let is_pre_release =
        |part: &str| is_identifier(part) && (is_number(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre_release.is_none_or(|pre| pre.split('.').all(is_pre_release))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_attribute_name(name: &str) -> bool {
        let (domain, identifier) = name.split_once('/').map_or((None, name), |(d, i)| (Some(d), i));
        let bytes = identifier.as_bytes();
        domain.is_none_or(is_domain)
            && (1..=IDENTIFIER_MAX).contains(&bytes.len())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
            && !bytes[0].is_ascii_digit()
    }

    #[test]
    fn names_of_devices() {
        assert_eq!(device_name("gpu-0"), "gpu-0");
        for (name, stem) in [
            ("gpu.0", "gpu-0"),
            ("GPU-0", "gpu-0"),
            ("0000:3b:00.0", "0000-3b-00-0"),
            ("***", "device"),
            ("-a-", "a"),
        ] {
            assert_eq!(device_name(name), format!("{stem}-{}", short_hash(name)));
        }
        assert_eq!(short_hash("gpu.0").len(), 8);
        let long = "a".repeat(100);
        assert_eq!(device_name(&long).len(), 63);
        assert_ne!(device_name(&long), device_name(&"a".repeat(101)));
    }

    #[test]
    fn names_of_attributes() {
        let name = |name| attribute_name("gpu.example.com", name);
        for (original, legal) in [
            ("memory", "memory"),
            ("theName_1", "theName_1"),
            ("memory-size", "memory_size"),
            ("a.b-c", "a_b_c"),
            ("1st", "_1st"),
            ("gpu.example.com/model", "model"),
            ("other.example.com/model", "other.example.com/model"),
            ("other.example.com/a-b", "other.example.com/a_b"),
            ("a.example.com/b/c", "a.example.com/b_c"),
        ] {
            assert_eq!(name(original).as_deref(), Ok(legal), "{original}");
        }
        assert_eq!(name(""), Err(NameRejected::Empty));
        assert_eq!(name("gpu.example.com/"), Err(NameRejected::Empty));
        assert_eq!(name("not a domain/x"), Err(NameRejected::Domain));
        let long = name("a-name-that-is-much-too-long-for-the-api").unwrap();
        assert!(long.len() == 32 && long.starts_with("a_name_that_is_much_too_"), "{long}");
    }

    #[test]
    fn versions() {
        for good in ["1.2.3", "0.0.0", "1.0.0-alpha.1", "1.0.0-0a", "1.0.0+20240305.x", "1.0.0--1+-"] {
            assert!(is_version(good), "{good}");
        }
        for bad in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "1.2.3-a..b",
            "1.2.3+ä",
        ] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_name_becomes_legal(name in any::<String>(), driver in "[a-z.]{1,10}") {
            prop_assert!(names::dns_label(&device_name(&name)).is_empty());
            if let Ok(attribute) = attribute_name(&driver, &name) {
                prop_assert!(is_attribute_name(&attribute), "{attribute}");
                // A legal name stays.
                let again = attribute_name(&driver, &attribute);
                prop_assert_eq!(again.as_deref(), Ok(&*attribute));
            }
            is_version(&name);
        }
    }
}

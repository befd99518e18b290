//! Image references, by the grammar of `github.com/distribution/reference`, which registries, runtimes and the stock kubelet
//! share. Pure.

use std::borrow::Cow;

use super::one_line;

/// The default registry of short names.
const DEFAULT_DOMAIN: &str = "docker.io";
/// Its older name.
const LEGACY_DEFAULT_DOMAIN: &str = "index.docker.io";
/// The default namespace of a single-component name.
const OFFICIAL_NAMESPACE: &str = "library/";
/// Maximum length of a repository path, in bytes.
const MAX_PATH: usize = 255;
/// Maximum length of a tag, in bytes.
const MAX_TAG: usize = 128;

/// Why a text is not an image reference. `Display` is upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageReferenceError {
    /// It does not match the grammar.
    #[error("invalid reference format")]
    Format,
    /// The name has upper-case letters.
    #[error("invalid reference format: repository name ({}) must be lowercase", one_line(.0, MAX_PATH))]
    UppercaseName(String),
    /// The registry would be valid only in lower case.
    #[error("repository name must be lowercase")]
    Uppercase,
    /// The repository's path is longer than 255 bytes.
    #[error("repository name must not be more than {MAX_PATH} characters")]
    TooLong,
    /// It is the ID of an image, not a name.
    #[error("invalid repository name ({}), cannot specify 64-byte hexadecimal strings", one_line(.0, MAX_PATH))]
    Identifier(String),
    /// The digest has characters that its algorithm does not use.
    #[error("invalid checksum digest format")]
    DigestFormat,
    /// The digest's length does not match its algorithm.
    #[error("invalid checksum digest length")]
    DigestLength,
    /// The digest's algorithm is unknown.
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
}

/// A parsed image reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference<'a> {
    /// Registry and repository, fully qualified, e.g. `docker.io/library/busybox`.
    pub name: String,
    /// The tag, if given.
    pub tag: Option<&'a str>,
    /// The digest with its algorithm, if given.
    pub digest: Option<&'a str>,
}

impl<'a> ImageReference<'a> {
    /// Parses a reference in its familiar form, where short names are those of Docker Hub.
    pub fn parse(image: &'a str) -> Result<Self, ImageReferenceError> {
        if image.len() == 64 && image.bytes().all(is_lower_hex) {
            return Err(ImageReferenceError::Identifier(image.to_owned()));
        }
        let (domain, namespace, remainder) = split_domain(image);
        let repository = remainder.split_once(':').map_or(remainder, |(repository, _)| repository);
        if repository.to_lowercase() != repository {
            return Err(ImageReferenceError::UppercaseName(format!("{namespace}{repository}")));
        }

        let Some(parts) = Parts::of(domain, remainder) else {
            // Like upstream: a second attempt in lower case distinguishes a wrong case from a wrong format.
            let (domain, remainder) = (domain.to_lowercase(), remainder.to_lowercase());
            return Err(match Parts::of(&domain, &remainder) {
                Some(_) => ImageReferenceError::Uppercase,
                None => ImageReferenceError::Format,
            });
        };
        let path = namespace.len() + parts.path.len();
        // Unless it can be a registry, it is the first component of the path.
        let path = if is_domain(domain) { path } else { domain.len() + 1 + path };
        if path > MAX_PATH {
            return Err(ImageReferenceError::TooLong);
        }
        parts.digest.map_or(Ok(()), check_digest)?;
        Ok(Self { name: format!("{domain}/{namespace}{}", parts.path), tag: parts.tag, digest: parts.digest })
    }
}

/// The reference to request from the runtime: `:latest` is appended if it has neither tag nor digest. Nothing else changes,
/// so that the runtime's own rules for short names apply.
pub fn with_default_tag(image: &str) -> Result<Cow<'_, str>, ImageReferenceError> {
    let reference = ImageReference::parse(image)?;
    Ok(match (reference.tag, reference.digest) {
        (None, None) => Cow::Owned(format!("{image}:latest")),
        (Some(_), _) | (_, Some(_)) => Cow::Borrowed(image),
    })
}

/// The reference without its tag and digest, otherwise as written.
pub fn without_tag(image: &str) -> Result<&str, ImageReferenceError> {
    let reference = ImageReference::parse(image)?;
    let cut = |text: Option<&str>| text.map_or(0, |text| text.len() + 1);
    Ok(image.get(..image.len() - cut(reference.tag) - cut(reference.digest)).unwrap_or(image))
}

/// Registry, implied namespace and remainder.
fn split_domain(image: &str) -> (&str, &'static str, &str) {
    let Some((first, rest)) = image.split_once('/') else {
        return (DEFAULT_DOMAIN, OFFICIAL_NAMESPACE, image);
    };
    let (domain, remainder) = if first == LEGACY_DEFAULT_DOMAIN {
        (DEFAULT_DOMAIN, rest)
    } else if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first {
        (first, rest)
    } else {
        (DEFAULT_DOMAIN, image)
    };
    let namespace =
        if domain == DEFAULT_DOMAIN && !remainder.contains('/') { OFFICIAL_NAMESPACE } else { "" };
    (domain, namespace, remainder)
}

/// `path [":" tag] ["@" digest]`, each part well-formed.
struct Parts<'a> {
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(domain: &str, remainder: &'a str) -> Option<Self> {
        let (rest, digest) = match remainder.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (remainder, None),
        };
        let last = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (path, tag) = match rest[last..].find(':') {
            Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
            None => (rest, None),
        };
        let well_formed = (is_domain(domain) || is_path_component(domain))
            && path.split('/').all(is_path_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        well_formed.then_some(Self { path, tag, digest })
    }
}

/// A host name, IPv4 or bracketed IPv6 address, with or without a port.
fn is_domain(text: &str) -> bool {
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text.ends_with(']') => (&text[..colon], Some(&text[colon + 1..])),
        Some(_) | None => (text, None),
    };
    let port_is_number = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    port_is_number
        && match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => {
                !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
            }
            None => host.split('.').all(is_domain_component),
        }
}

fn is_domain_component(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Lower-case letters and digits, with one dot, one or two underscores or any number of dashes between them.
fn is_path_component(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && text.split(is_alphanumeric).all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
        })
}

fn is_tag(text: &str) -> bool {
    text.len() <= MAX_TAG
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// An algorithm and at least 32 hex digits; [`check_digest`] checks whether they match.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && algorithm.split(['-', '_', '+', '.']).all(|component| {
            component.starts_with(|c: char| c.is_ascii_alphabetic())
                && component.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

fn check_digest(digest: &str) -> Result<(), ImageReferenceError> {
    let (algorithm, hex) = digest.split_once(':').ok_or(ImageReferenceError::DigestFormat)?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        // Registered algorithms are in lower case.
        _ if algorithm.bytes().any(|b| b.is_ascii_uppercase()) => {
            return Err(ImageReferenceError::DigestFormat);
        }
        _ => return Err(ImageReferenceError::DigestAlgorithm),
    };
    if hex.len() != length {
        return Err(ImageReferenceError::DigestLength);
    }
    if !hex.bytes().all(is_lower_hex) {
        return Err(ImageReferenceError::DigestFormat);
    }
    Ok(())
}

fn is_lower_hex(b: u8) -> bool {
    matches!(b, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
#[path = "image_reference_tests.rs"]
mod tests;

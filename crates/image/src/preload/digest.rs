//! Content digests. SHA-256 only, which is what image archives use.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Directory of an OCI layout's blobs.
const BLOBS: &str = "blobs/sha256/";

/// A SHA-256 digest: `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Parses a digest; `None` if it is malformed or uses another algorithm.
    pub fn parse(text: &str) -> Option<Self> {
        text.strip_prefix("sha256:").and_then(Self::from_hex)
    }

    /// Computes the digest of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(content))
    }

    /// The digest of the data given to `hasher`.
    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(format!("sha256:{}", hex::encode(hasher.finalize())))
    }

    /// The digest in a blob's path in an OCI layout; `None` if the path is not a blob's.
    pub(super) fn of_blob_path(path: &str) -> Option<Self> {
        path.strip_prefix(BLOBS).and_then(Self::from_hex)
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_hex(hex: &str) -> Option<Self> {
        let well_formed = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        well_formed.then(|| Self(format!("sha256:{hex}")))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn only_whole_sha256_digests_are_read() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::parse(&format!("sha256:{empty}")), Some(Digest::of(b"")));
        assert_eq!(Digest::of_blob_path(&format!("blobs/sha256/{empty}")), Some(Digest::of(b"")));
        for text in [empty, "sha256:", "sha512:00", &format!("sha256:{}", empty.to_uppercase())] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
        assert_eq!(Digest::of_blob_path(&format!("blobs/sha256/../{empty}")), None);
    }
}

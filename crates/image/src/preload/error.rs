//! Why an import failed: the file, its contents, or the runtime.

use std::io;

use hostlet_base::ImageReferenceError;
use hostlet_base::one_line;

use super::Digest;

/// Maximum length of a quoted name, in bytes.
const SHOWN_MOST: usize = 256;

/// Text from an archive, quoted, truncated and without terminal control characters.
fn shown(text: &str) -> String {
    format!("\"{}\"", one_line(text, SHOWN_MOST))
}

/// The file is not a readable archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file could not be opened.
    #[error("cannot open the file")]
    Open(#[source] io::Error),
    /// A read failed, the data ended early, or decompression failed.
    #[error("cannot continue reading; the file may be truncated")]
    Read(#[source] io::Error),
    /// The compression is not supported.
    #[error(
        "is compressed with {0}; unpack it, or compress it with gzip: only plain and gzip-compressed archives \
         are read"
    )]
    Compression(&'static str),
    /// A tar header is invalid.
    #[error("is not a tar archive, or a damaged one: {0}")]
    Header(&'static str),
    /// An entry's path escapes the archive.
    #[error("contains {}, a path outside the archive", shown(.0))]
    Escape(String),
    /// Two files have the same name.
    #[error("contains {} twice", shown(.0))]
    Twice(String),
    /// A limit is exceeded.
    #[error("contains more than {what}")]
    TooMuch {
        /// The limit, as text.
        what: &'static str,
    },
    /// A blob does not match its digest.
    #[error("the content of {} does not match its digest {expected}", shown(name))]
    WrongDigest {
        /// The file in the archive.
        name: String,
        /// The digest by which the archive refers to it.
        expected: Digest,
    },
    /// The file changed while it was read.
    #[error("changed while it was read")]
    Changed,
    /// The daemon is shutting down.
    #[error("reading was cancelled")]
    Cancelled,
}

/// The archive's contents give no image for this host.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither an OCI layout nor the output of `docker save`.
    #[error("is not an image archive: it has neither oci-layout with index.json, nor manifest.json")]
    NoLayout,
    /// An unsupported version of the OCI layout.
    #[error("has the OCI layout version {}; only 1.0.0 is supported", shown(.0))]
    LayoutVersion(String),
    /// A document is not valid JSON or not of the expected shape.
    #[error("cannot parse {}", shown(name))]
    Document {
        /// The file in the archive, or the digest of a blob.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A document is too large or is not text.
    #[error("{} is not a JSON document or is larger than 4 MiB", shown(.0))]
    NoDocument(String),
    /// The archive lacks a blob that it refers to.
    #[error("lacks {}, which its manifest refers to", shown(.0))]
    Missing(String),
    /// A blob's length differs from its descriptor's.
    #[error("{} does not have the length in its manifest", shown(.0))]
    Size(String),
    /// A digest that is not SHA-256 or is malformed.
    #[error("refers to {}; only sha256 digests are supported", shown(.0))]
    Digest(String),
    /// Indexes are nested too deeply.
    #[error("nests its indexes too deeply")]
    TooDeep,
    /// The descriptor is not of a container image.
    #[error("contains {}, which is not an image", shown(.0))]
    NotAnImage(String),
    /// None of the images has a name.
    #[error("names no image: give it a full name when saving it, such as \"registry.example/app:1\"")]
    NoName,
    /// An image's name is not a valid reference.
    #[error("the image name {} cannot be used", shown(name))]
    Name {
        /// As in the archive.
        name: String,
        /// Why.
        source: ImageReferenceError,
    },
    /// All images are for other platforms.
    #[error("has no image for this host, which is linux/{host}, only for {found}")]
    OtherPlatform {
        /// This host's architecture.
        host: String,
        /// The platforms of the archive's images.
        found: String,
    },
}

/// The runtime did not accept an image.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The runtime is not containerd.
    #[error("the runtime does not offer containerd's {0} service")]
    Unsupported(&'static str),
    /// The call failed.
    #[error("containerd: {operation}: {message}")]
    Failed {
        /// What containerd was asked for, in words.
        operation: &'static str,
        /// The runtime's error.
        message: String,
    },
    /// The call timed out.
    #[error("containerd: {operation}: no answer in time")]
    TimedOut {
        /// What containerd was asked for, in words.
        operation: &'static str,
    },
}

//! Why an archive could not become images: the file is at fault, what it says, or the runtime.

use std::io;

use super::Digest;
use crate::image::ReferenceError;
use crate::types::one_line;

/// Bytes of a name from an archive that are shown.
const SHOWN_MOST: usize = 256;

/// What an archive says, quoted: as long as it may be, and without what moves a terminal's cursor.
fn shown(text: &str) -> String {
    format!("\"{}\"", one_line(text, SHOWN_MOST))
}

/// The file is no archive that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file could not be opened.
    #[error("cannot open the file")]
    Open(#[source] io::Error),
    /// Its bytes could not be read, or end too early, or do not unpack.
    #[error("cannot read on; the file may be cut short")]
    Read(#[source] io::Error),
    /// It is compressed in a way that is not known here.
    #[error(
        "is compressed with {0}; unpack it, or compress it with gzip: only plain and gzip-compressed archives are read"
    )]
    Compression(&'static str),
    /// A header is not one of tar.
    #[error("is not a tar archive, or a damaged one: {0}")]
    Header(&'static str),
    /// The name of an entry leads out of the archive.
    #[error("holds {}, a name that leads out of the archive", shown(.0))]
    Escape(String),
    /// Two files have the same name.
    #[error("holds {} twice", shown(.0))]
    Twice(String),
    /// It is larger than anything that should be read into this process.
    #[error("holds more than {what}")]
    TooMuch {
        /// The bound, as text.
        what: &'static str,
    },
    /// A blob does not have the digest it should have.
    #[error("the content of {} is not what its digest {expected} says", shown(name))]
    WrongDigest {
        /// The file in the archive.
        name: String,
        /// What it should be.
        expected: Digest,
    },
    /// It is not the file that it was a moment ago.
    #[error("changed while it was read")]
    Changed,
    /// The daemon ends.
    #[error("reading was given up")]
    Cancelled,
}

/// What the archive says makes no image for this host.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither an OCI layout nor what `docker save` writes.
    #[error("is no image archive: it has neither oci-layout with index.json, nor manifest.json")]
    NoLayout,
    /// A later layout.
    #[error("has the OCI layout version {}; only 1.0.0 is known", shown(.0))]
    LayoutVersion(String),
    /// A JSON document that is not one, or not of the expected shape.
    #[error("cannot understand {}", shown(name))]
    Document {
        /// The file in the archive, or the digest of a blob.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A JSON document that is too large, or is binary.
    #[error("{} should be a JSON document, and is none or is larger than 4 MiB", shown(.0))]
    NoDocument(String),
    /// Something the archive refers to is not in it.
    #[error("lacks {}, which its manifest refers to", shown(.0))]
    Missing(String),
    /// A blob is not as long as its descriptor says.
    #[error("{} is not as long as its manifest says", shown(.0))]
    Size(String),
    /// A digest that cannot be checked.
    #[error("refers to {}; only sha256 digests are known", shown(.0))]
    Digest(String),
    /// An index in an index in an index.
    #[error("nests its indexes too deeply")]
    TooDeep,
    /// Something other than a container image.
    #[error("holds {}, which is no image", shown(.0))]
    NotAnImage(String),
    /// No image has a name.
    #[error("names no image: give it a full name when saving it, such as \"registry.example/app:1\"")]
    NoName,
    /// The name of an image is none.
    #[error("the image name {} cannot be used", shown(name))]
    Name {
        /// As in the archive.
        name: String,
        /// Why.
        source: ReferenceError,
    },
    /// All images are for other hosts.
    #[error("has no image for this host, which is linux/{wanted}, only for {found}")]
    OtherPlatform {
        /// The architecture of this host.
        wanted: String,
        /// For what it has images.
        found: String,
    },
}

/// The runtime did not take an image.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The runtime is not containerd.
    #[error("the runtime does not offer containerd's {0} service")]
    Unsupported(&'static str),
    /// The runtime refused, or could not be reached.
    #[error("containerd: {operation}: {message}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// What the runtime says.
        message: String,
    },
    /// The runtime did not answer in time.
    #[error("containerd: {operation}: no answer in time")]
    TimedOut {
        /// What was tried.
        operation: &'static str,
    },
}

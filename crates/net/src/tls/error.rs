//! Errors of keys, certificates and their files.

use std::io;
use std::path::PathBuf;

use rustls::server::VerifierBuilderError;
use rustls_pki_types::pem;
use x509_cert::der;

/// Why a key, a certificate or one of their files is unusable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's random numbers are unavailable.
    #[error("the system provides no random numbers")]
    Random,
    /// The key is not an ECDSA P-256 key in PKCS #8.
    #[error("it is not an ECDSA P-256 private key in PKCS #8")]
    Key,
    /// A key could not be generated.
    #[error("a private key cannot be generated")]
    Generate,
    /// The text has no private key.
    #[error("it has no private key")]
    NoKey(#[source] pem::Error),
    /// The text is not PEM.
    #[error("it is not PEM")]
    Pem(#[source] pem::Error),
    /// The text has no certificate.
    #[error("it has no certificate")]
    NoCertificate,
    /// A certificate or request could not be decoded.
    #[error("it is not an X.509 certificate or request")]
    Decode(#[source] der::Error),
    /// A certificate request could not be encoded.
    #[error("the certificate request cannot be encoded")]
    Encode(#[source] der::Error),
    /// A certificate's time is out of range.
    #[error("the times of its validity are out of range")]
    Time,
    /// The certificate is for another key.
    #[error("the certificate is for another private key")]
    OtherKey,
    /// The system's certificate authorities are unusable.
    #[error("the certificate authorities of the system cannot be used")]
    SystemAuthorities(#[source] rustls::Error),
    /// A certificate authority is unusable.
    #[error("a certificate of the certificate authority cannot be used")]
    Authority(#[source] rustls::Error),
    /// Certificate and key cannot be used together.
    #[error("the certificate cannot be used with its key")]
    Identity(#[source] rustls::Error),
    /// A client's certificate is not of the authorities, or not valid now.
    #[error("it is not a valid client certificate of the authorities")]
    Client(#[source] rustls::Error),
    /// A client's certificate does not say whom it is for in a way that counts.
    #[error("its subject has {0}")]
    Subject(&'static str),
    /// The authorities are unusable.
    #[error("the certificate authorities of clients cannot be used")]
    Authorities(#[source] VerifierBuilderError),
    /// The restrictions leave nothing to agree on.
    #[error("the restrictions of TLS leave no {0} that hostlet supports")]
    Restricted(&'static str),
    /// Of a certificate and its key, there is only one.
    #[error("there is {}, but no {}: add it, or remove both", present.display(), missing.display())]
    Half {
        /// The one that is there.
        present: PathBuf,
        /// The other one.
        missing: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The failed step, in words that follow "cannot".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Something else is at the place of a link.
    #[error("{} is not a symbolic link; move it away", .0.display())]
    NotALink(PathBuf),
}

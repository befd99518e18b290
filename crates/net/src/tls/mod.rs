//! X.509 as a node and its pods need it: private keys, certificate requests, the validity of certificates, and the directory of a node's
//! certificates. Sends nothing, and knows neither the API server nor whose certificates they are.

mod alternative_names;
mod certificate;
mod client;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod issue;
mod key;
mod name;
mod request;
mod self_signed;
mod server;
mod store;
mod subject_key;

pub use alternative_names::AlternativeNames;
pub use certificate::{CertificateInfo, certificates_of, ders_of, keys_of, pem_of};
pub use client::{Trust, client_config};
pub use error::TlsError;
pub use key::PrivateKey;
pub use request::{certificate_request, serving_certificate_request};
pub use self_signed::self_signed_files;
pub use server::{ClientAuthorities, ServerTls, Subject, TlsVersion};
pub use store::CertificateStore;
pub use subject_key::{KeyKind, SubjectKey};

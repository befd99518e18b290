//! X.509 as a node needs it: private keys, certificate requests, the validity of certificates, and the directory of a node's
//! certificates. Sends nothing, and knows neither the API server nor whose certificates they are.

mod certificate;
mod client;
mod error;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
mod key;
mod name;
mod request;
mod store;

pub use certificate::{CertificateInfo, certificates_of, keys_of};
pub use client::{Trust, client_config};
pub use error::TlsError;
pub use key::PrivateKey;
pub use request::certificate_request;
pub use store::CertificateStore;

//! Certificates in volumes (PodCertificateRequest): requested with a new key for each source of a volume, renewed while its pod uses it,
//! and kept in memory only. A restarted daemon requests all of them again, as upstream does. Writes no files.

mod count;
mod issuing;
mod request;
mod state;
#[cfg(test)]
mod state_tests;
mod task;
#[cfg(test)]
mod task_tests;

pub use issuing::CertificateDeps;
pub(super) use issuing::Issuing;
pub(super) use task::follow_certificate;

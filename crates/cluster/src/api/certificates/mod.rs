//! The node's client certificate: requested with a bootstrap kubeconfig, renewed before it expires (Kubernetes docs, "TLS
//! bootstrapping"). Nothing waits for it. Never touches a pod.

mod kubeconfig;
mod metrics;
mod name;
mod pace;
mod plan;
mod report;
mod request;
mod serving;
mod serving_plan;
mod signer_time;
mod task;

pub use metrics::{ServingMetrics, register as register_certificate};
pub use report::CertificateReport;
pub use serving::{IssuedCertificate, ServingCertificateTask, ServingSettings};
pub use task::{CertificateSettings, ClientCertificateTask};

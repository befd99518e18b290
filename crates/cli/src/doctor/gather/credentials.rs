//! Facts of the kubeconfig.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hostlet_cluster::api::{KubeconfigCertificate, kubeconfig_certificates, kubeconfig_secrets};

use super::super::certificate::{Counts, validity};
use super::super::facts::{CredentialFacts, Seen, Unseen};

pub(super) fn credentials(file: &Path) -> Seen<CredentialFacts> {
    let unseen = |error: &dyn std::error::Error| Unseen(format!("{}: {error}", file.display()));
    let certificates = kubeconfig_certificates(file).map_err(|error| unseen(&error))?;
    let certificates = certificates.into_iter().map(|KubeconfigCertificate { what, is_authority, pem }| {
        let counts = if is_authority { Counts::Latest } else { Counts::First };
        let read = pem.map_err(|error| Unseen(error.to_string())).and_then(|pem| validity(&pem, counts));
        (what, read)
    });
    let mut secrets: Vec<PathBuf> = kubeconfig_secrets(file);
    secrets.insert(0, file.to_owned());
    let is_exposed =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o044 != 0);
    secrets.retain(is_exposed);
    Ok(CredentialFacts { file: file.to_owned(), exposed: secrets, certificates: certificates.collect() })
}

//! What a kubeconfig holds of certificates and secrets, for checks before a connection is made. Verifies nothing.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;

use super::kubeconfig::{read, secret_files};

/// Why a kubeconfig or a certificate cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KubeconfigProblem(String);

/// A certificate in a kubeconfig, or in a file that it names.
#[derive(Debug)]
pub struct KubeconfigCertificate {
    /// What it is, and where.
    pub what: String,
    /// Whether it is an authority's: one of several that are trusted.
    pub is_authority: bool,
    /// Its PEM text.
    pub pem: Result<Vec<u8>, KubeconfigProblem>,
}

/// The certificates of the kubeconfig's current context: the client's and the authority's.
pub fn kubeconfig_certificates(path: &Path) -> Result<Vec<KubeconfigCertificate>, KubeconfigProblem> {
    let kubeconfig = read(path).map_err(|error| KubeconfigProblem(error.to_string()))?;
    let (cluster, user) = current(&kubeconfig)?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == cluster);
    let cluster = cluster.and_then(|named| named.cluster.clone()).unwrap_or_default();
    let user = kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == user.as_ref());
    let user = user.and_then(|named| named.auth_info.clone()).unwrap_or_default();
    let found = [
        certificate("the client certificate", false, user.client_certificate, user.client_certificate_data),
        certificate(
            "the authority's certificate",
            true,
            cluster.certificate_authority,
            cluster.certificate_authority_data,
        ),
    ];
    Ok(found.into_iter().flatten().collect())
}

/// The files with secrets that the kubeconfig refers to.
pub fn kubeconfig_secrets(path: &Path) -> Vec<PathBuf> {
    secret_files(path)
}

/// The names of the current context's cluster and user.
fn current(kubeconfig: &Kubeconfig) -> Result<(String, Option<String>), KubeconfigProblem> {
    let name = kubeconfig.current_context.clone().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == name);
    let context = context.and_then(|named| named.context.clone());
    let context = context.ok_or_else(|| KubeconfigProblem(format!("it has no context {name:?}")))?;
    Ok((context.cluster, context.user))
}

/// As client-go, data in the kubeconfig take precedence over a file.
fn certificate(
    what: &str,
    is_authority: bool,
    file: Option<String>,
    data: Option<String>,
) -> Option<KubeconfigCertificate> {
    let (what, pem) = match (data, file) {
        (Some(data), _) => {
            let pem = STANDARD.decode(data.trim()).map_err(|error| KubeconfigProblem(error.to_string()));
            (what.to_owned(), pem)
        }
        (None, Some(file)) => {
            let pem = fs::read(&file).map_err(|error| KubeconfigProblem(error.to_string()));
            (format!("{what} {file}"), pem)
        }
        (None, None) => return None,
    };
    Some(KubeconfigCertificate { what, is_authority, pem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_of_the_current_context_are_read_from_data_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        fs::write(dir.path().join("me.pem"), "mine").unwrap();
        let text = "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority-data: YXV0aG9yaXR5}}]\n\
                    users: [{name: u, user: {client-certificate: me.pem, client-key: me.key}}, {name: v, user: {}}]\n\
                    contexts: [{name: c, context: {cluster: a, user: u}}]\ncurrent-context: c\n";
        fs::write(&path, text).unwrap();
        let found = kubeconfig_certificates(&path).unwrap();
        let pems: Vec<_> = found.iter().map(|c| c.pem.as_ref().unwrap().as_slice()).collect();
        assert_eq!(pems, [&b"mine"[..], b"authority"]);
        assert!(found[0].what.contains("client certificate") && found[0].what.ends_with("me.pem"));
        assert_eq!(kubeconfig_secrets(&path), [dir.path().join("me.key")]);
        fs::remove_file(dir.path().join("me.pem")).unwrap();
        assert!(kubeconfig_certificates(&path).unwrap()[0].pem.is_err());
        for text in ["", "current-context: none\n", "clusters: 5\n"] {
            fs::write(&path, text).unwrap();
            assert!(kubeconfig_certificates(&path).is_err(), "{text}");
        }
    }
}

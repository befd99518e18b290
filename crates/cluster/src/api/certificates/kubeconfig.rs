//! The kubeconfig that a bootstrap writes: the cluster of the bootstrap kubeconfig, with the certificate of the store as user.

use std::io;
use std::path::{Path, PathBuf};

use hostlet_host::replace_file;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::api::kubeconfig::{ReadError, current_cluster, read};

/// Mode of the file.
const MODE: u32 = 0o600;

/// Why the kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubeconfigError {
    /// The bootstrap kubeconfig cannot be read.
    #[error("--bootstrap-kubeconfig {}", path.display())]
    Read { path: PathBuf, source: ReadError },
    /// It has no cluster in its current context.
    #[error("--bootstrap-kubeconfig {}: its current context has no cluster", .0.display())]
    NoCluster(PathBuf),
    /// The kubeconfig could not be encoded.
    #[error("cannot encode the kubeconfig")]
    Encode(#[source] serde_saphyr::ser::Error),
    /// It could not be written.
    #[error("cannot write --kubeconfig {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the kubeconfig at `path`. Its user has the certificate and key in the file `pair`. Blocks.
pub(super) fn write(path: &Path, bootstrap: &Path, pair: &Path) -> Result<(), KubeconfigError> {
    let mut source =
        read(bootstrap).map_err(|source| KubeconfigError::Read { path: bootstrap.to_owned(), source })?;
    let text = text(&mut source, pair)?.ok_or_else(|| KubeconfigError::NoCluster(bootstrap.to_owned()))?;
    let failed = |source| KubeconfigError::Write { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    // A link stays a link.
    let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace_file(&place, text.as_bytes(), MODE).map_err(failed)
}

/// The kubeconfig with upstream's names; `None` if `bootstrap` has no cluster.
fn text(bootstrap: &mut Kubeconfig, pair: &Path) -> Result<Option<String>, KubeconfigError> {
    let Some(source) = current_cluster(bootstrap) else { return Ok(None) };
    let mut cluster = json!({"server": source.server});
    let data = source.certificate_authority_data.as_ref().filter(|_| source.certificate_authority.is_none());
    let fields = [
        ("certificate-authority", source.certificate_authority.clone().map(Value::from)),
        ("certificate-authority-data", data.cloned().map(Value::from)),
        ("insecure-skip-tls-verify", source.insecure_skip_tls_verify.filter(|skip| *skip).map(Value::from)),
        ("tls-server-name", source.tls_server_name.clone().map(Value::from)),
        ("proxy-url", source.proxy_url.clone().map(Value::from)),
    ];
    for (field, value) in fields {
        if let Some(value) = value {
            cluster[field] = value;
        }
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [{"name": "default-auth", "user": {"client-certificate": pair, "client-key": pair}}],
        "contexts": [{
            "name": "default-context",
            "context": {"cluster": "default-cluster", "namespace": "default", "user": "default-auth"},
        }],
        "current-context": "default-context",
        "preferences": {},
    });
    serde_saphyr::to_string(&kubeconfig).map(Some).map_err(KubeconfigError::Encode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// As kubeadm 1.37 writes it for a join with a token.
    const BOOTSTRAP: &str = include_str!("testdata/bootstrap-kubelet.conf");

    #[test]
    fn a_kubeconfig_has_the_cluster_of_the_bootstrap_and_the_certificate() {
        let dir = tempfile::TempDir::new().unwrap();
        let (bootstrap, path) =
            (dir.path().join("bootstrap-kubelet.conf"), dir.path().join("etc/kubelet.conf"));
        fs::write(&bootstrap, BOOTSTRAP.replace("    server:", "    proxy-url: http://p:1\n    server:"))
            .unwrap();
        let pair = dir.path().join("kubelet-client-current.pem");
        write(&path, &bootstrap, &pair).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let mut written = read(&path).unwrap();
        let mut source = read(&bootstrap).unwrap();
        let (cluster, origin) =
            (current_cluster(&mut written).unwrap(), current_cluster(&mut source).unwrap());
        assert_eq!(cluster.server, origin.server);
        assert_eq!(cluster.certificate_authority_data, origin.certificate_authority_data);
        assert!(cluster.certificate_authority_data.is_some());
        assert_eq!(cluster.proxy_url.as_deref(), Some("http://p:1"));
        let user = written.auth_infos[0].auth_info.as_ref().unwrap();
        let pair = Some(pair.display().to_string());
        assert_eq!((&user.client_certificate, &user.client_key), (&pair, &pair));
        assert!(user.token.is_none(), "the token stays in the bootstrap kubeconfig");
        assert_eq!(written.current_context.as_deref(), Some("default-context"));
    }

    #[test]
    fn a_link_stays_and_relative_files_are_found() {
        let dir = tempfile::TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("pki")).unwrap();
        let text = crate::api::kubeconfig::of_one_user("https://a:1", "{token: t}");
        fs::write(at("pki/bootstrap"), text.replace("server:", "certificate-authority: ca.crt, server:"))
            .unwrap();
        fs::write(at("real"), "old").unwrap();
        symlink(at("real"), at("kubelet.conf")).unwrap();
        write(&at("kubelet.conf"), &at("pki/bootstrap"), &at("pair")).unwrap();
        assert!(fs::symlink_metadata(at("kubelet.conf")).unwrap().is_symlink());
        let mut written = read(&at("real")).unwrap();
        let authority = current_cluster(&mut written).unwrap().certificate_authority.clone();
        assert_eq!(authority, Some(at("pki/ca.crt").display().to_string()));
        fs::write(at("none"), "clusters: []").unwrap();
        assert!(matches!(write(&at("x"), &at("none"), &at("p")), Err(KubeconfigError::NoCluster(_))));
    }
}

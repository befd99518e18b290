//! Reads a kubeconfig into kube's type, with the strict reader of hostlet's other files.

use std::fmt;
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use kube::config::{Cluster, Kubeconfig, KubeconfigError};
use serde_json::Value;

use hostlet_base::json;
use hostlet_base::yaml::parse_documents;

/// Fields with a file path, relative to the kubeconfig's directory.
const CLUSTER_FILES: [&str; 1] = ["certificate-authority"];
const USER_FILES: [&str; 3] = ["client-certificate", "client-key", "tokenFile"];

/// A kubeconfig and the flag that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KubeconfigFile {
    pub(super) flag: &'static str,
    pub(super) path: PathBuf,
}

impl fmt::Display for KubeconfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{} {}", self.flag, self.path.display())
    }
}

/// Why a file is not a valid kubeconfig.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("line {line} column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    #[error("line {line}: {mismatch}")]
    Field { line: usize, mismatch: json::Mismatch },
    #[error("{0}")]
    Merge(KubeconfigError),
}

/// Reads the file at `path`. If it has several documents, earlier ones take precedence.
pub(super) fn read(path: &Path) -> Result<Kubeconfig, ReadError> {
    let text = std::fs::read_to_string(path).map_err(ReadError::Read)?;
    let documents = parse_documents(&text).map_err(|errors| {
        let first = errors.into_iter().next();
        let (line, column, message) = first.map(|e| (e.line, e.column, e.message)).unwrap_or_default();
        ReadError::Syntax { line, column, message }
    })?;
    let mut merged = Kubeconfig::default();
    for mut document in documents.into_iter().filter(|document| !document.value.is_null()) {
        if let Some(directory) = path.parent() {
            resolve(&mut document.value, directory);
        }
        let read = json::from_value(&document.value).map_err(|mismatch| {
            let line = document.lines.line(&mismatch.path).unwrap_or(1);
            ReadError::Field { line, mismatch }
        })?;
        merged = merged.merge(read).map_err(ReadError::Merge)?;
    }
    Ok(merged)
}

/// The cluster of the current context, if there is one.
pub(super) fn current_cluster(kubeconfig: &mut Kubeconfig) -> Option<&mut Cluster> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    kubeconfig.clusters.iter_mut().find(|named| named.name == *name)?.cluster.as_mut()
}

/// The files with secrets (keys and tokens) that the kubeconfig at `path` refers to. Empty if it cannot be read; see [`read`].
pub(super) fn secret_files(path: &Path) -> Vec<PathBuf> {
    let users = read(path).map(|kubeconfig| kubeconfig.auth_infos).unwrap_or_default();
    let infos = users.into_iter().filter_map(|named| named.auth_info);
    infos.flat_map(|info| [info.client_key, info.token_file]).flatten().map(PathBuf::from).collect()
}

/// Makes the paths in a kubeconfig absolute, as client-go does.
fn resolve(kubeconfig: &mut Value, directory: &Path) {
    for cluster in each(kubeconfig, "clusters", "cluster") {
        CLUSTER_FILES.iter().for_each(|field| make_absolute(cluster.get_mut(*field), directory));
    }
    for user in each(kubeconfig, "users", "user") {
        USER_FILES.iter().for_each(|field| make_absolute(user.get_mut(*field), directory));
        // A bare name is searched in PATH.
        let command = user.get_mut("exec").and_then(|exec| exec.get_mut("command"));
        let is_path = |command: &&mut Value| command.as_str().is_some_and(|it| it.contains(MAIN_SEPARATOR));
        make_absolute(command.filter(is_path), directory);
    }
}

fn each<'v>(kubeconfig: &'v mut Value, list: &str, field: &'v str) -> impl Iterator<Item = &'v mut Value> {
    let items = kubeconfig.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(move |item| item.get_mut(field))
}

fn make_absolute(file: Option<&mut Value>, directory: &Path) {
    if let Some(Value::String(file)) = file
        && !file.is_empty()
        && let Some(path) = directory.join(&*file).to_str()
    {
        *file = path.to_owned();
    }
}

/// A kubeconfig with one cluster at `server` and one user with this entry.
#[cfg(test)]
pub(super) fn of_one_user(server: &str, user: &str) -> String {
    format!(
        "clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: c, context: {{cluster: a, user: u}}}}]\ncurrent-context: c\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_resolved_from_the_kubeconfigs_directory() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("kubeconfig");
        let text = "clusters: [{name: c, cluster: {certificate-authority: ca.crt}}]\nusers:\n\
                    - {name: a, user: {client-certificate: /abs.crt, client-key: pki/a.key, tokenFile: token}}\n\
                    - {name: b, user: {exec: {command: bin/login}}}\n\
                    - {name: c, user: {exec: {command: aws}}}\n---\n---\ncurrent-context: later\n";
        std::fs::write(&path, text).unwrap();
        let read = read(&path).unwrap();
        let here = |name: &str| Some(dir.path().join(name).display().to_string());
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.certificate_authority, here("ca.crt"));
        let user = |at: usize| read.auth_infos[at].auth_info.clone().unwrap();
        assert_eq!(user(0).client_certificate.as_deref(), Some("/abs.crt"));
        assert_eq!(user(0).client_key, here("pki/a.key"));
        assert_eq!(user(0).token_file, here("token"));
        assert_eq!(user(1).exec.unwrap().command, here("bin/login"));
        assert_eq!(user(2).exec.unwrap().command.as_deref(), Some("aws"));
        assert_eq!(read.current_context.as_deref(), Some("later"));
    }

    #[test]
    fn an_error_is_reported_with_its_line() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("kubeconfig");
        for (text, expected) in [
            ("a: [", "line 1 column "),
            (
                "users: [{name: u, user: {token: 5}}]",
                "line 1: users[0].user.token: 5 is not text; put it in quotes",
            ),
            ("- a", "line 1: invalid type: sequence, expected an object"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

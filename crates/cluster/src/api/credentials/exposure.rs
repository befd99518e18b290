//! Checks whether other users of the host can read the kubeconfig or the keys and tokens it refers to: a user who can read them can
//! impersonate this node. Reports only; changes no file.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_host::file_work;
use hostlet_telemetry::Changed;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::api::kubeconfig;

/// Interval of the check, the same as for re-reading files.
const PERIOD: Duration = Duration::from_secs(60);

/// Checks the kubeconfig at `path` and its files periodically, and publishes in `exposed` who can read them, as a sentence.
pub(super) async fn watch_exposure(path: PathBuf, exposed: watch::Sender<Option<String>>) {
    let mut reported = Changed::new();
    loop {
        let kubeconfig = path.clone();
        if let Ok(found) = file_work(move || exposure(&kubeconfig)).await {
            if reported.see(found.clone()) {
                match &found {
                    Some(problem) => {
                        tracing::warn!(problem, "credentials of this node can be read by others")
                    }
                    None => tracing::debug!("no other user can read the credentials of this node"),
                }
            }
            exposed.send_if_modified(|known| {
                let is_changed = *known != found;
                *known = found;
                is_changed
            });
        }
        sleep(PERIOD).await;
    }
}

/// Who else can read the kubeconfig and its credential files; `None` if no other user can, or the files do not exist.
fn exposure(kubeconfig: &Path) -> Option<String> {
    let mut files = vec![kubeconfig.to_owned()];
    files.extend(kubeconfig::secret_files(kubeconfig));
    let found = files.iter().filter_map(|file| {
        let (readers, mode) = readers(file)?;
        let file = file.display();
        Some(format!("{file} can be read by {readers} (mode {mode:04o}): chmod 0600 {file}"))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| format!("{}; then replace the credentials in it", found.join("; ")))
}

/// The users besides root and the owner who can read the file, and its mode; `None` if it does not exist. Root's group counts
/// as root.
fn readers(file: &Path) -> Option<(String, u32)> {
    let file = fs::canonicalize(file).ok()?;
    let metadata = fs::metadata(&file).ok()?;
    let mode = metadata.mode() & 0o7777;
    let directories: Vec<Metadata> =
        file.ancestors().skip(1).map(fs::metadata).collect::<Result<_, _>>().ok()?;
    // Users without search permission on a parent directory cannot open it.
    if mode & 0o004 != 0 && directories.iter().all(|above| above.mode() & 0o001 != 0) {
        return Some(("every user of this host".to_owned(), mode));
    }
    let group = metadata.gid();
    let can_search = |above: &Metadata| {
        let bit = if above.gid() == group { 0o010 } else { 0o001 };
        above.mode() & bit != 0
    };
    let is_read = group != 0 && mode & 0o040 != 0 && directories.iter().all(can_search);
    is_read.then(|| (format!("the group {group}"), mode))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;
    use hostlet_host::testing::skipped;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn readers_of_credentials_are_reported_with_the_file() {
        let dir = tempfile::TempDir::new_in("/tmp").unwrap();
        set_mode(dir.path(), 0o755);
        let kubeconfig = dir.path().join("kubeconfig");
        let (key, token) = (dir.path().join("node.key"), dir.path().join("token"));
        let users = "users: [{name: a, user: {client-certificate: node.crt, client-key: node.key}}, \
                     {name: b, user: {tokenFile: token}}, {name: c, user: {client-key: none}}]";
        fs::write(&kubeconfig, users).unwrap();
        for file in [&key, &token, &dir.path().join("node.crt")] {
            fs::write(file, "").unwrap();
            set_mode(file, 0o644);
        }
        set_mode(&kubeconfig, 0o600);
        let sentence = exposure(&kubeconfig).unwrap();
        for file in [&key, &token] {
            let file = file.display();
            let said =
                format!("{file} can be read by every user of this host (mode 0644): chmod 0600 {file}");
            assert!(sentence.contains(&said), "{sentence}");
        }
        assert!(!sentence.contains("node.crt") && !sentence.contains("kubeconfig"), "{sentence}");
        // A directory without search permission protects its files.
        set_mode(dir.path(), 0o700);
        assert_eq!(exposure(&kubeconfig), None);
        set_mode(dir.path(), 0o755);
        set_mode(&key, 0o600);
        set_mode(&token, 0o400);
        assert_eq!(exposure(&kubeconfig), None);
        // A kubeconfig that cannot be parsed is secret all the same.
        fs::write(&kubeconfig, "users: [").unwrap();
        set_mode(&kubeconfig, 0o604);
        assert!(exposure(&kubeconfig).unwrap().contains("mode 0604"));
        assert_eq!(exposure(&dir.path().join("none")), None);
    }

    #[test]
    fn a_group_can_read_a_file_only_with_search_permission_on_its_directory() {
        let dir = tempfile::TempDir::new_in("/tmp").unwrap();
        set_mode(dir.path(), 0o755);
        let file = dir.path().join("kubeconfig");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o640);
        // Only root can give a file to a group that it is not a member of.
        if chown(&file, None, Some(4711)).is_err() {
            return skipped("needs root");
        }
        assert!(exposure(&file).unwrap().contains("by the group 4711 (mode 0640)"));
        set_mode(dir.path(), 0o750);
        assert_eq!(exposure(&file), None);
        set_mode(dir.path(), 0o755);
        chown(&file, None, Some(0)).unwrap();
        assert_eq!(exposure(&file), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_mode_is_reported_again() {
        let dir = tempfile::TempDir::new_in("/tmp").unwrap();
        set_mode(dir.path(), 0o755);
        let file = dir.path().join("kubeconfig");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o644);
        let (exposed, mut sentence) = watch::channel(None);
        let changes = async {
            assert!(sentence.wait_for(Option::is_some).await.is_ok());
            set_mode(&file, 0o600);
            assert!(sentence.wait_for(Option::is_none).await.is_ok());
        };
        tokio::select! {
            () = watch_exposure(file.clone(), exposed) => {}
            () = changes => {}
        }
    }
}

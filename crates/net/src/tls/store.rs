//! A directory of certificates with upstream's layout: each certificate with its key in `<name>-<time>.pem`, and the link
//! `<name>-current.pem` to the one in use. Older ones stay. The key of a pending request is in `<name>.key.tmp`, so that the
//! request survives a restart. Never decides which certificate is used.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use hostlet_host::{replace_file, sync_parent};
use jiff::Zoned;

use super::{CertificateInfo, PrivateKey, TlsError};

/// Mode of files with keys.
const SECRET: u32 = 0o600;

/// Mode of a created directory; upstream's. Its keys are not readable by others.
const DIRECTORY: u32 = 0o755;

/// The certificates of one purpose in a directory, which need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStore {
    directory: PathBuf,
    name: &'static str,
}

impl CertificateStore {
    /// The client certificates of a node (upstream's name).
    pub fn of_client(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), name: "kubelet-client" }
    }

    /// The certificates of a node's API (upstream's name).
    pub fn of_server(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), name: "kubelet-server" }
    }

    /// The path of the current certificate with its key.
    pub fn current_path(&self) -> PathBuf {
        self.file("current")
    }

    /// The current certificate with its key as PEM; `None` if there is none. Completes an update that was interrupted. Blocks.
    pub fn current(&self) -> Result<Option<Vec<u8>>, TlsError> {
        let (current, updated) = (self.current_path(), self.file("updated"));
        if fs::symlink_metadata(&current).is_err() && is_link(&updated) {
            fs::rename(&updated, &current).map_err(failed("rename", &updated))?;
        }
        match fs::read(&current) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &current)(error)),
        }
    }

    /// Stores a certificate with its key and makes it current. `now` is in the host's time zone, as upstream's names are. Blocks.
    ///
    /// # Errors
    /// A file could not be written, or the certificate is unusable. The current one then stays.
    pub fn update(&self, certificate: &str, key: &PrivateKey, now: &Zoned) -> Result<PathBuf, TlsError> {
        CertificateInfo::from_pem(certificate.as_bytes())?.check_key(key)?;
        self.create_directory()?;
        let path = self.file(&now.strftime("%Y-%m-%d-%H-%M-%S").to_string());
        let line_end = if certificate.ends_with('\n') { "" } else { "\n" };
        let text = format!("{certificate}{line_end}{}", key.pem());
        replace_file(&path, text.as_bytes(), SECRET).map_err(failed("write", &path))?;
        self.link(&path)?;
        Ok(path)
    }

    /// The key of the pending request. Creates one if there is none or if it is unusable. Blocks.
    pub fn pending_key(&self) -> Result<PrivateKey, TlsError> {
        let path = self.pending_path();
        match fs::read(&path) {
            Ok(text) => match PrivateKey::from_pem(&text) {
                Ok(key) => return Ok(key),
                Err(error) => {
                    let (path, error) = (path.display(), hostlet_base::error_chain(&error));
                    tracing::info!(error, "{path} is replaced: it is no usable private key");
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", &path)(error)),
        }
        let key = PrivateKey::generate()?;
        self.create_directory()?;
        replace_file(&path, key.pem().as_bytes(), SECRET).map_err(failed("write", &path))?;
        Ok(key)
    }

    /// Removes the key of the pending request. Blocks.
    pub fn discard_pending_key(&self) -> Result<(), TlsError> {
        let path = self.pending_path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn create_directory(&self) -> Result<(), TlsError> {
        let made = DirBuilder::new().recursive(true).mode(DIRECTORY).create(&self.directory);
        made.map_err(failed("create", &self.directory))
    }

    /// Makes the file at `path` the current one, in one step.
    fn link(&self, path: &Path) -> Result<(), TlsError> {
        let (current, updated) = (self.current_path(), self.file("updated"));
        for link in [&current, &updated] {
            if fs::symlink_metadata(link).is_ok() && !is_link(link) {
                return Err(TlsError::NotALink(link.clone()));
            }
        }
        if is_link(&updated) {
            fs::remove_file(&updated).map_err(failed("remove", &updated))?;
        }
        let target = std::path::absolute(path).map_err(failed("find", path))?;
        symlink(target, &updated).map_err(failed("create", &updated))?;
        fs::rename(&updated, &current).map_err(failed("replace", &current))?;
        sync_parent(&current).map_err(failed("write the directory of", &current))
    }

    fn file(&self, qualifier: &str) -> PathBuf {
        self.directory.join(format!("{}-{qualifier}.pem", self.name))
    }

    fn pending_path(&self) -> PathBuf {
        self.directory.join(format!("{}.key.tmp", self.name))
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TlsError {
    let path = path.to_owned();
    move |source| TlsError::File { operation, path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use tempfile::TempDir;

    use super::*;
    use crate::tls::certificate_request;
    use crate::tls::fake::FakeAuthority;

    fn at(text: &str) -> Zoned {
        text.parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC)
    }

    fn certificate(key: &PrivateKey) -> String {
        let request = certificate_request(key, "system:nodes", "system:node:a").unwrap();
        FakeAuthority::new().issue(&request, Timestamp::UNIX_EPOCH, Duration::from_secs(9)).unwrap()
    }

    fn store() -> (TempDir, CertificateStore) {
        let dir = TempDir::new().unwrap();
        let store = CertificateStore::of_client(&dir.path().join("kubelet/pki"));
        (dir, store)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_certificate_is_stored_with_upstreams_names_and_older_ones_stay() {
        let (_dir, store) = store();
        assert_eq!(store.current().unwrap(), None);
        let (first, second) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
        let old = store.update(&certificate(&first), &first, &at("2026-11-24T06:53:52Z")).unwrap();
        assert!(old.ends_with("kubelet-client-2026-11-24-06-53-52.pem"), "{}", old.display());
        let new =
            store.update(certificate(&second).trim_end(), &second, &at("2027-01-02T03:04:05Z")).unwrap();
        assert!(store.current_path().ends_with("kubelet/pki/kubelet-client-current.pem"));
        assert_eq!(fs::read_link(store.current_path()).unwrap(), new);
        let text = store.current().unwrap().unwrap();
        CertificateInfo::from_pem(&text).unwrap().check_key(&second).unwrap();
        PrivateKey::from_pem(&text).unwrap();
        assert!(old.exists());
        assert_eq!((mode(&old), mode(&new)), (0o600, 0o600));
        assert_eq!(fs::read_dir(new.parent().unwrap()).unwrap().count(), 3);
    }

    #[test]
    fn an_unusable_certificate_leaves_the_current_one() {
        let (_dir, store) = store();
        let (key, other) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
        let now = at("2026-11-24T06:53:52Z");
        let old = store.update(&certificate(&key), &key, &now).unwrap();
        assert!(matches!(store.update(&certificate(&other), &key, &now), Err(TlsError::OtherKey)));
        assert!(matches!(store.update("none", &key, &now), Err(TlsError::NoCertificate)));
        assert_eq!(fs::read_link(store.current_path()).unwrap(), old);
        // A file is not removed for a link.
        fs::remove_file(store.current_path()).unwrap();
        fs::write(store.current_path(), "a copy").unwrap();
        let error = store.update(&certificate(&key), &key, &now).unwrap_err();
        assert!(matches!(error, TlsError::NotALink(_)), "{error}");
        assert_eq!(store.current().unwrap().unwrap(), b"a copy");
    }

    #[test]
    fn an_interrupted_update_is_completed() {
        let (_dir, store) = store();
        let key = PrivateKey::generate().unwrap();
        store.update(&certificate(&key), &key, &at("2026-11-24T06:53:52Z")).unwrap();
        // Upstream removes the link before it renames the new one.
        fs::rename(store.current_path(), store.file("updated")).unwrap();
        assert!(store.current().unwrap().is_some());
        assert!(is_link(&store.current_path()) && !is_link(&store.file("updated")));
    }

    #[test]
    fn the_key_of_a_pending_request_stays_until_discarded() {
        let (_dir, store) = store();
        store.discard_pending_key().unwrap();
        let key = store.pending_key().unwrap().public_key().unwrap();
        assert_eq!(mode(&store.pending_path()), 0o600);
        assert_eq!(store.pending_key().unwrap().public_key().unwrap(), key);
        fs::write(store.pending_path(), "damaged").unwrap();
        assert_ne!(store.pending_key().unwrap().public_key().unwrap(), key);
        store.discard_pending_key().unwrap();
        assert!(!store.pending_path().exists());
    }
}

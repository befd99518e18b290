//! Performs fixes.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::architecture;
use hostlet_host::replace_file;
use hostlet_image::preload::{Containerd, Digest, ImageStore, ImportError, StoreError, import_file};
use hostlet_runtime::cri::{CriClient, CriError, RuntimeService};
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::plan::{Fix, backup};
use crate::doctor::toml_config::with_cri;

/// How long a restarted runtime may take to answer.
const RESTART: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(5);

/// Why a fix failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FixError {
    /// A file could not be read or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        operation: &'static str,
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The configuration of containerd is not TOML.
    #[error("{} cannot be edited", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        source: toml_edit::TomlError,
    },
    /// Nothing here restarts a service.
    #[error("systemd does not run this host: restart containerd, then run hostlet doctor --fix again")]
    NoServiceManager,
    /// The service could not be restarted.
    #[error("containerd could not be restarted ({0}): journalctl -u containerd says why")]
    Restart(String),
    /// The runtime does not answer after its restart.
    #[error("containerd was restarted and does not answer")]
    Silent(#[source] CriError),
    /// The archive does not exist.
    #[error(
        "there is no {}: packages of hostlet have it; without it, the runtime pulls the image from its registry",
        path.display()
    )]
    NoArchive {
        /// The archive.
        path: PathBuf,
    },
    /// The archive could not be imported.
    #[error("importing {}", path.display())]
    Import {
        /// The archive.
        path: PathBuf,
        source: ImportError,
    },
    /// The archive has no image.
    #[error("{} has no image for this machine", path.display())]
    NoImage {
        /// The archive.
        path: PathBuf,
    },
    /// The image could not be named.
    #[error("naming the image {image}")]
    Name {
        /// The name.
        image: String,
        source: StoreError,
    },
}

/// Performs fixes on this host.
#[derive(Clone, Debug)]
pub(crate) struct Fixer {
    /// The runtime's socket.
    pub socket: PathBuf,
    /// The program that restarts services, if systemd runs this host.
    pub systemctl: Option<PathBuf>,
}

impl Fixer {
    /// Performs one fix. Performed again, it changes nothing.
    pub(crate) async fn perform(&self, fix: &Fix) -> Result<(), FixError> {
        match fix {
            Fix::EnableCri { file } => {
                enable_cri(file)?;
                self.restart().await
            }
            Fix::LinkPlugins { from, to, names } => link_plugins(from, to, names),
            Fix::WriteNetwork { file, text, .. } => write_network(file, text),
            Fix::ImportPause { archive, image } => {
                let client = CriClient::new(&self.socket, DEADLINE);
                import_pause(archive, image, &Containerd::new(client.channel())).await
            }
        }
    }

    async fn restart(&self) -> Result<(), FixError> {
        let systemctl = self.systemctl.as_ref().ok_or(FixError::NoServiceManager)?;
        let status = Command::new(systemctl).args(["restart", "containerd"]).status().await;
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(FixError::Restart(status.to_string())),
            Err(error) => return Err(FixError::Restart(error.to_string())),
        }
        let client = CriClient::new(&self.socket, DEADLINE);
        let deadline = Instant::now() + RESTART;
        loop {
            match client.version().await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= deadline => return Err(FixError::Silent(error)),
                Err(_) => sleep(LOOK).await,
            }
        }
    }
}

/// Edits the file, which keeps its mode. The first backup is kept: it is the file as it was.
fn enable_cri(file: &Path) -> Result<(), FixError> {
    let failed = |operation| move |source| FixError::File { operation, path: file.to_owned(), source };
    let text = fs::read_to_string(file).map_err(failed("read"))?;
    let mode = fs::metadata(file).map_err(failed("look at"))?.permissions().mode() & 0o7777;
    let edited = with_cri(&text).map_err(|source| FixError::Toml { path: file.to_owned(), source })?;
    if edited == text {
        return Ok(());
    }
    let kept = OpenOptions::new().write(true).create_new(true).mode(mode).open(backup(file));
    match kept.and_then(|mut kept| kept.write_all(text.as_bytes())) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed("back up")(error)),
        Ok(()) | Err(_) => {}
    }
    replace_file(file, edited.as_bytes(), mode).map_err(failed("write"))
}

/// Links the plugins unless there is something of their name.
fn link_plugins(from: &Path, to: &Path, names: &[String]) -> Result<(), FixError> {
    fs::create_dir_all(to).map_err(|source| FixError::File {
        operation: "create",
        path: to.to_owned(),
        source,
    })?;
    for name in names {
        let link = to.join(name);
        match symlink(from.join(name), &link) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                return Err(FixError::File { operation: "create", path: link, source });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Writes the file unless there is one: it appears complete, and never replaces another.
fn write_network(file: &Path, text: &str) -> Result<(), FixError> {
    let failed = |operation| move |source| FixError::File { operation, path: file.to_owned(), source };
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(failed("create the directory of"))?;
    }
    // A runtime does not read a file of this name.
    let hidden = file.with_added_extension("hostlet");
    replace_file(&hidden, text.as_bytes(), 0o644).map_err(failed("write"))?;
    let linked = fs::hard_link(&hidden, file);
    fs::remove_file(&hidden).map_err(failed("tidy up after"))?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed("create")(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Imports the archive's image under this name.
async fn import_pause(archive: &Path, image: &str, store: &dyn ImageStore) -> Result<(), FixError> {
    if !archive.exists() {
        return Err(FixError::NoArchive { path: archive.to_owned() });
    }
    let imported = import_file(archive, architecture(), store, &CancellationToken::new()).await;
    let records = imported.map_err(|source| FixError::Import { path: archive.to_owned(), source })?;
    // An image also has a record by its ID.
    let named =
        records.iter().find(|(name, _)| Digest::parse(name).is_none()).or_else(|| records.iter().next());
    let (_, target) = named.ok_or_else(|| FixError::NoImage { path: archive.to_owned() })?;
    store.put(image, target).await.map_err(|source| FixError::Name { image: image.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = "# by a package\ndisabled_plugins = [\"cri\"]\n";

    #[test]
    fn the_cri_is_enabled_once_and_the_file_as_it_was_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, DOCKER).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        for _ in 0..2 {
            enable_cri(&file).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "# by a package\ndisabled_plugins = []\n");
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
            assert_eq!(fs::read_to_string(backup(&file)).unwrap(), DOCKER);
        }
        // Disabled again, for instance by an upgrade of the package: the first backup stays.
        fs::write(&file, "disabled_plugins = [\"cri\", \"zfs\"]\n").unwrap();
        enable_cri(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "disabled_plugins = [\"zfs\"]\n");
        assert_eq!(fs::read_to_string(backup(&file)).unwrap(), DOCKER);
        fs::write(&file, "disabled_plugins = [").unwrap();
        assert!(matches!(enable_cri(&file), Err(FixError::Toml { .. })));
    }

    #[test]
    fn a_linked_plugin_never_replaces_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("usr/lib/cni"), dir.path().join("opt/cni/bin"));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        for name in ["bridge", "loopback"] {
            fs::write(from.join(name), "of the distribution").unwrap();
        }
        fs::write(to.join("bridge"), "mine").unwrap();
        for _ in 0..2 {
            link_plugins(&from, &to, &["bridge".to_owned(), "loopback".to_owned()]).unwrap();
            assert_eq!(fs::read_to_string(to.join("bridge")).unwrap(), "mine");
            assert_eq!(fs::read_to_string(to.join("loopback")).unwrap(), "of the distribution");
        }
    }

    #[test]
    fn a_network_never_replaces_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("net.d/10-hostlet.conflist");
        write_network(&file, "first").unwrap();
        write_network(&file, "second").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn without_systemd_the_owner_restarts_containerd() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, DOCKER).unwrap();
        let fixer = Fixer { socket: dir.path().join("none.sock"), systemctl: None };
        let error = fixer.perform(&Fix::EnableCri { file: file.clone() }).await.unwrap_err();
        assert!(matches!(error, FixError::NoServiceManager));
        let fails = Fixer { systemctl: Some("/bin/false".into()), ..fixer };
        let error = fails.perform(&Fix::EnableCri { file }).await.unwrap_err();
        assert!(matches!(error, FixError::Restart(_)), "{error}");
        let archive = dir.path().join("pause.tar");
        let error = fails.perform(&Fix::ImportPause { archive, image: "p".to_owned() }).await.unwrap_err();
        assert!(matches!(error, FixError::NoArchive { .. }), "{error}");
    }
}

//! Creates the daemon's directories at start-up, with their modes. Never removes one or changes the mode of an existing one, which
//! an administrator may have set.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::SysError;
use super::pod_dirs::pods_dir;
use super::selinux::{selinux_is_enabled, set_label};

/// Directories below the root that drivers' pods mount with `type: Directory`, with upstream's modes.
const FOR_DRIVERS: [(&str, u32); 4] =
    [("plugins", 0o750), ("plugins_registry", 0o750), ("device-plugins", 0o750), ("pod-resources", 0o750)];

/// The directories in which pods of drivers create sockets, and the label with which they may do so without privileges.
const SOCKET_DIRS: [&str; 3] = ["plugins", "plugins_registry", "device-plugins"];
const SOCKET_DIR_LABEL: &str = "system_u:object_r:container_file_t:s0";

/// The directories that every kubelet creates in its root directory at its start.
pub fn common_dirs(root: &Path) -> impl Iterator<Item = PathBuf> {
    FOR_DRIVERS.into_iter().map(|(name, _)| root.join(name)).chain([pods_dir(root)])
}

/// The directory of containers' checkpoints in a root directory.
pub fn checkpoints_dir(root: &Path) -> PathBuf {
    root.join("checkpoints")
}

/// The daemon's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDirs {
    /// The root directory (`--root-dir`).
    pub root: PathBuf,
    /// Logs, with a directory per pod (`podLogsDir`).
    pub pod_logs: PathBuf,
    /// Links to container logs for log collectors; `/var/log/containers` by convention.
    pub container_logs: PathBuf,
}

impl HostDirs {
    /// Creates missing directories, restricted to root except the links, which collectors read. The root directory must be a
    /// clean absolute path, because it is the prefix of mount points that are compared as text.
    pub fn create(&self) -> Result<(), SysError> {
        let clean: PathBuf = clean(&self.root);
        // Compared as text, because comparing paths ignores `//` and `/./`.
        if clean.as_os_str() != self.root.as_os_str() {
            return Err(SysError::NotCanonical { path: self.root.clone(), clean });
        }
        create(&self.root, 0o750)?;
        create(&pods_dir(&self.root), 0o750)?;
        for (name, mode) in FOR_DRIVERS {
            create(&self.root.join(name), mode)?;
        }
        create(&self.pod_logs, 0o750)?;
        create(&self.container_logs, 0o755)
    }

    /// Labels the directories of drivers' sockets on a host with SELinux (`sys` is `/sys`). Elsewhere nothing is changed.
    pub fn label(&self, sys: &Path) -> Result<(), SysError> {
        if selinux_is_enabled(sys) { self.label_with(set_label) } else { Ok(()) }
    }

    fn label_with(&self, set: impl Fn(&Path, &str) -> io::Result<()>) -> Result<(), SysError> {
        let paths = SOCKET_DIRS.map(|name| self.root.join(name));
        paths.into_iter().try_for_each(|path| {
            set(&path, SOCKET_DIR_LABEL).map_err(|source| SysError::Label { path, source })
        })
    }

    /// Size of the root directory's filesystem in bytes.
    pub fn capacity(&self) -> Result<u64, SysError> {
        let found = statvfs(&self.root);
        let stat = found.map_err(|errno| SysError::Read { path: self.root.clone(), source: errno.into() })?;
        Ok(stat.blocks() as u64 * stat.fragment_size() as u64)
    }

    /// The local store's file, in a separate directory that the store creates: names in the root directory belong to the
    /// stock kubelet.
    pub fn store(&self) -> PathBuf {
        self.root.join("hostlet/store.redb")
    }

    /// The file with the key of sealed rows of the store, on a host without a credential for it.
    pub fn objects_key(&self) -> PathBuf {
        self.root.join("hostlet/objects.key")
    }

    /// The record of hostlet's own pods, one file each.
    pub fn own_pods(&self) -> PathBuf {
        self.root.join("hostlet/own-pods")
    }

    /// The file that says for which runtimes hostlet has run pods from this root directory. Outside the store's directory, so
    /// that what loses the store does not lose it.
    pub fn claim(&self) -> PathBuf {
        self.root.join("hostlet-claim.json")
    }
}

fn create(path: &Path, mode: u32) -> Result<(), SysError> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|source| SysError::CreateDir { path: path.to_owned(), source })
}

/// The normalized absolute path.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn dirs(base: &Path) -> HostDirs {
        HostDirs {
            root: base.join("lib/kubelet"),
            pod_logs: base.join("log/pods"),
            container_logs: base.join("log/containers"),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn all_are_created_with_their_modes_and_unchanged_later() {
        let base = tempfile::tempdir().unwrap();
        let dirs = dirs(base.path());
        dirs.create().unwrap();
        // A usual umask (022) does not restrict 0750.
        assert_eq!(mode(&dirs.root), 0o750);
        assert_eq!(mode(&pods_dir(&dirs.root)), 0o750);
        for (name, wanted) in FOR_DRIVERS {
            assert_eq!(mode(&dirs.root.join(name)), wanted, "{name}");
        }
        assert_eq!(mode(&dirs.pod_logs), 0o750);
        assert!(dirs.container_logs.is_dir());
        assert!(dirs.capacity().unwrap() > 1 << 20);
        fs::set_permissions(&dirs.root, fs::Permissions::from_mode(0o711)).unwrap();
        dirs.create().unwrap();
        assert_eq!(mode(&dirs.root), 0o711);
    }

    #[test]
    fn the_directories_of_drivers_sockets_are_labelled_where_there_is_selinux() {
        let dirs = dirs(Path::new("/base"));
        let labelled = RefCell::new(Vec::new());
        dirs.label_with(|path, label| {
            labelled.borrow_mut().push(format!("{} {label}", path.display()));
            Ok(())
        })
        .unwrap();
        let expected = ["plugins", "plugins_registry", "device-plugins"]
            .map(|name| format!("/base/lib/kubelet/{name} system_u:object_r:container_file_t:s0"));
        assert_eq!(labelled.into_inner(), expected);
        let error = dirs.label_with(|_, _| Err(io::ErrorKind::Unsupported.into())).unwrap_err();
        assert_eq!(error.to_string(), "cannot label /base/lib/kubelet/plugins for SELinux");
        dirs.label(Path::new("/a/host/without")).unwrap();
    }

    #[test]
    fn an_unclean_root_is_rejected_with_the_clean_path() {
        for (given, wanted) in [
            ("/a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("/a/../b", "/b"),
            ("a/b", "/a/b"),
            ("/../..", "/"),
        ] {
            let dirs = HostDirs { root: given.into(), ..dirs(Path::new("/nowhere")) };
            let error = dirs.create().unwrap_err();
            assert!(
                matches!(&error, SysError::NotCanonical { clean, .. } if clean == Path::new(wanted)),
                "{error}"
            );
        }
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_named() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("log"), "").unwrap();
        let error = dirs(base.path()).create().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot create directory {}/log/pods", base.path().display()));
    }
}

//! The directories the daemon makes at start, with their modes. Never removes one, nor changes the mode of one that is
//! there: an administrator may have set it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::SysError;

/// What drivers' pods mount from the root as directories that must be there, with upstream's modes.
const FOR_DRIVERS: [(&str, u32); 4] =
    [("plugins", 0o750), ("plugins_registry", 0o750), ("device-plugins", 0o750), ("pod-resources", 0o750)];

/// Where the daemon keeps its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDirs {
    /// The daemon's own files. (`--root-dir`)
    pub root: PathBuf,
    /// A directory of logs for each pod. (`podLogsDir`)
    pub pod_logs: PathBuf,
    /// Links to the logs by container, for log collectors; `/var/log/containers` by custom.
    pub container_logs: PathBuf,
}

impl HostDirs {
    /// Makes what is missing: everything closed to other users, but for the links, which collectors read. The root must
    /// be a clean absolute path, as its text becomes part of mount points that are compared later.
    pub fn create(&self) -> Result<(), SysError> {
        let clean: PathBuf = clean(&self.root);
        // Compared as text: comparing paths overlooks `//` and `/./`.
        if clean.as_os_str() != self.root.as_os_str() {
            return Err(SysError::NotCanonical { path: self.root.clone(), clean });
        }
        create(&self.root, 0o750)?;
        create(&self.pods(), 0o750)?;
        for (name, mode) in FOR_DRIVERS {
            create(&self.root.join(name), mode)?;
        }
        create(&self.pod_logs, 0o750)?;
        create(&self.container_logs, 0o755)
    }

    /// Size of the filesystem that the root is on, bytes.
    pub fn capacity(&self) -> Result<u64, SysError> {
        let found = statvfs(&self.root);
        let stat = found.map_err(|errno| SysError::Read { path: self.root.clone(), source: errno.into() })?;
        Ok(stat.blocks() as u64 * stat.fragment_size() as u64)
    }

    /// The file of the local store, in a directory of its own that the store makes: names in the root are the stock
    /// kubelet's.
    pub fn store(&self) -> PathBuf {
        self.root.join("hostlet/store.redb")
    }

    /// A directory for each pod, in the root.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }
}

fn create(path: &Path, mode: u32) -> Result<(), SysError> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|source| SysError::CreateDir { path: path.to_owned(), source })
}

/// The path without what leads nowhere, from the root down.
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
    fn all_are_made_with_their_modes_and_left_alone_after() {
        let base = tempfile::tempdir().unwrap();
        let dirs = dirs(base.path());
        dirs.create().unwrap();
        // An ordinary umask (022) takes nothing from 0750.
        assert_eq!(mode(&dirs.root), 0o750);
        assert_eq!(mode(&dirs.pods()), 0o750);
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
    fn a_root_that_is_not_clean_is_refused_with_what_to_write() {
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
    fn a_directory_that_cannot_be_made_is_named() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("log"), "").unwrap();
        let error = dirs(base.path()).create().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot create directory {}/log/pods", base.path().display()));
    }
}

//! Makes a directory a shared mount, whatever its file system's mount is: what is mounted in it later reaches containers, and the
//! reverse (mount_namespaces(7)).

use std::io;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use super::{Mounts, Origin, SysError, real_path};

/// Whether a directory is on a shared mount, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It was before.
    Shared,
    /// It was mounted on itself: the mount on which it is is not shared.
    Made {
        /// The mount in the directory.
        mount: PathBuf,
    },
    /// It is not. Something is mounted in it, which a mount over it would hide.
    Occupied {
        /// The mount on which it is.
        mount: PathBuf,
    },
}

/// Makes a directory a shared mount unless it is on one. Blocking. Idempotent.
pub fn share_dir(dir: &Path, mounts: &dyn Mounts) -> Result<Sharing, SysError> {
    let dir = real_path(dir);
    let table = mounts.table()?;
    let Some(outer) = table.of(&dir).filter(|mount| !mount.is_shared) else { return Ok(Sharing::Shared) };
    let outer = outer.point.clone();
    if table.within(&dir).any(|mount| mount.point != dir) {
        return Ok(Sharing::Occupied { mount: outer });
    }
    let with = |source: Option<&Path>, flags| mount(source, &dir, None::<&str>, flags, None::<&str>);
    let failed = |errno| SysError::Share { path: dir.clone(), source: io::Error::from(errno) };
    with(Some(&dir), MsFlags::MS_BIND).map_err(failed)?;
    if let Err(errno) = with(None, MsFlags::MS_SHARED | MsFlags::MS_REC) {
        mounts.unmount(&dir)?;
        return Err(failed(errno));
    }
    Ok(Sharing::Made { mount: outer })
}

/// Undoes [`share_dir`]: unmounts a directory that is mounted on itself, and nothing else. Blocking. Idempotent.
pub fn unshare_dir(dir: &Path, mounts: &dyn Mounts) -> Result<(), SysError> {
    let dir = real_path(dir);
    let table = mounts.table()?;
    let there: Vec<Origin> = table
        .origin_below(&dir)
        .into_iter()
        .chain(table.at(&dir).map(|mount| mount.origin.clone()))
        .collect();
    match &there[..] {
        [.., below, top] if below == top => mounts.unmount(&dir),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::in_mount_namespace;

    fn mount_tmpfs(dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    }

    #[test]
    fn a_directory_becomes_a_shared_mount_once_and_is_one_no_longer() {
        in_mount_namespace(|dir, mounts| {
            fs::write(dir.join("file"), "").unwrap();
            assert!(matches!(share_dir(dir, mounts).unwrap(), Sharing::Made { .. }));
            assert_eq!(share_dir(dir, mounts).unwrap(), Sharing::Shared);
            assert!(dir.join("file").exists() && mounts.table().unwrap().of(dir).unwrap().is_shared);
            mount_tmpfs(&dir.join("volume"));
            assert!(
                mounts.table().unwrap().of(&dir.join("volume")).unwrap().is_shared,
                "as containers need it"
            );
            mounts.unmount(&dir.join("volume")).unwrap();
            for _ in 0..2 {
                unshare_dir(dir, mounts).unwrap();
                assert_eq!(mounts.table().unwrap().at(dir).count(), 0);
            }
        });
    }

    #[test]
    fn nothing_that_is_mounted_is_hidden() {
        in_mount_namespace(|dir, mounts| {
            mount_tmpfs(&dir.join("pods/u/volume"));
            assert!(matches!(share_dir(dir, mounts).unwrap(), Sharing::Occupied { .. }));
            assert_eq!(mounts.table().unwrap().at(dir).count(), 0);
        });
    }

    #[test]
    fn a_mount_of_somebody_else_stays() {
        in_mount_namespace(|dir, mounts| {
            let (own, other) = (dir.join("own"), dir.join("other"));
            mount_tmpfs(&own);
            fs::create_dir(&other).unwrap();
            unshare_dir(&own, mounts).unwrap();
            assert_eq!(mounts.table().unwrap().at(&own).count(), 1, "a file system of its own");
            assert_eq!(share_dir(&own, mounts).unwrap(), Sharing::Made { mount: own.clone() });
            unshare_dir(&own, mounts).unwrap();
            assert_eq!(mounts.table().unwrap().at(&own).count(), 1);
            mounts.unmount(&own).unwrap();
            mount(Some(&*other), &own, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
            unshare_dir(&own, mounts).unwrap();
            assert_eq!(
                mounts.table().unwrap().at(&own).count(),
                1,
                "another directory of the same file system"
            );
        });
    }
}

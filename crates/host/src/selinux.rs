//! SELinux: whether the host has it, and the labels of directories. Changes no policy.

use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

/// Whether the kernel enforces or logs SELinux's policy. `sys` is `/sys` outside tests.
pub fn selinux_is_enabled(sys: &Path) -> bool {
    sys.join("fs/selinux/enforce").exists()
}

/// Labels a directory, not what is in it.
pub(super) fn set_label(path: &Path, label: &str) -> io::Result<()> {
    setxattr(path, "security.selinux", label.as_bytes(), XattrFlags::empty()).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_selinux_has_its_filesystem() {
        let sys = tempfile::tempdir().unwrap();
        assert!(!selinux_is_enabled(sys.path()));
        let selinuxfs = sys.path().join("fs/selinux");
        std::fs::create_dir_all(&selinuxfs).unwrap();
        std::fs::write(selinuxfs.join("enforce"), "1").unwrap();
        assert!(selinux_is_enabled(sys.path()));
    }
}

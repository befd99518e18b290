//! SELinux: whether the host has it, and the labels of directories. Changes no policy.

use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

/// Whether the kernel enforces or logs SELinux's policy. `sys` is `/sys` outside tests.
pub fn selinux_is_enabled(sys: &Path) -> bool {
    sys.join("fs/selinux/enforce").exists()
}

/// The label of the files of containers by the policy in `etc` (`/etc` outside tests), of which processes have their own user and level;
/// `None` without SELinux, or if the policy knows no containers.
pub fn container_file_label(sys: &Path, etc: &Path) -> Option<String> {
    if !selinux_is_enabled(sys) {
        return None;
    }
    let config = std::fs::read_to_string(etc.join("selinux/config")).ok()?;
    let policy = setting(&config, "SELINUXTYPE")?;
    let contexts = etc.join("selinux").join(policy).join("contexts/lxc_contexts");
    setting(&std::fs::read_to_string(contexts).ok()?, "file").map(str::to_owned)
}

/// The value of a line `name = "value"`.
fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"'))
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

    #[test]
    fn the_policy_names_the_label_of_containers_files() {
        let (sys, etc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let contexts = etc.path().join("selinux/targeted/contexts");
        std::fs::create_dir_all(&contexts).unwrap();
        std::fs::write(etc.path().join("selinux/config"), "# SELINUXTYPE=no\nSELINUXTYPE=targeted\n")
            .unwrap();
        let text = "process = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n";
        std::fs::write(contexts.join("lxc_contexts"), text).unwrap();
        assert_eq!(container_file_label(sys.path(), etc.path()), None);
        std::fs::create_dir_all(sys.path().join("fs/selinux")).unwrap();
        std::fs::write(sys.path().join("fs/selinux/enforce"), "1").unwrap();
        let label = container_file_label(sys.path(), etc.path());
        assert_eq!(label.as_deref(), Some("system_u:object_r:container_file_t:s0"));
    }
}

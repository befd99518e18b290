//! Finds other kubelet processes on this host. Does not decide whether they conflict.

use std::fs;
use std::path::{Path, PathBuf};

use crate::SysError;

/// The program's and process's name.
const PROGRAM: &str = "kubelet";

/// A running kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletProcess {
    /// In the PID namespace of this process.
    pub pid: i32,
    /// Its command line, the name of the program first.
    pub arguments: Vec<String>,
    /// Its working directory, the base of relative paths in its arguments.
    pub cwd: PathBuf,
}

/// The kubelets below `proc`, which is `/proc` outside tests, except this process, whatever its program is called. One in another
/// mount namespace belongs to another node in a container (kind) and is skipped. Blocking.
pub fn kubelets(proc: &Path) -> Result<Vec<KubeletProcess>, SysError> {
    let unread = |source: std::io::Error| SysError::ReadProc {
        path: proc.to_owned(),
        source: Box::new(source.into()),
    };
    let mounts = fs::read_link(proc.join("self/ns/mnt")).map_err(unread)?;
    let own = fs::read_link(proc.join("self")).ok();
    let entries = fs::read_dir(proc).map_err(unread)?.filter_map(Result::ok);
    let found = entries.filter_map(|entry| {
        let name = entry.file_name();
        let pid = name.to_str()?.parse().ok()?;
        if own.as_ref().is_some_and(|own| own.as_os_str() == name) {
            return None;
        }
        // It may exit in the meantime.
        kubelet(&entry.path(), pid, &mounts)
    });
    Ok(found.collect())
}

fn kubelet(process: &Path, pid: i32, mounts: &Path) -> Option<KubeletProcess> {
    // A cheap first check; any process can use this name.
    if fs::read_to_string(process.join("comm")).ok()?.trim_end() != PROGRAM {
        return None;
    }
    let program = fs::read_link(process.join("exe")).ok()?;
    // The binary was replaced while it runs.
    let name = program.file_name()?.to_str()?.trim_end_matches(" (deleted)");
    if name != PROGRAM || fs::read_link(process.join("ns/mnt")).ok()? != mounts {
        return None;
    }
    let line = fs::read(process.join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line);
    let arguments = line.trim_end_matches('\0').split('\0').skip(1).map(str::to_owned).collect();
    Some(KubeletProcess { pid, arguments, cwd: fs::read_link(process.join("cwd")).ok()? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn kubelets_of_this_host_are_found_and_nothing_else() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: &str, comm: &str, exe: &str, mounts: &str| {
            let dir = proc.path().join(pid);
            fs::create_dir_all(dir.join("ns")).unwrap();
            fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
            fs::write(dir.join("cmdline"), "/usr/bin/kubelet\0--config\0a.yaml\0").unwrap();
            symlink(exe, dir.join("exe")).unwrap();
            symlink("/srv", dir.join("cwd")).unwrap();
            symlink(mounts, dir.join("ns/mnt")).unwrap();
        };
        // A copy of this program by that name.
        process("6", "kubelet", "/usr/bin/kubelet", "mnt:[1]");
        symlink("6", proc.path().join("self")).unwrap();
        process("7", "kubelet", "/usr/bin/kubelet", "mnt:[1]");
        process("8", "kubelet", "/usr/bin/kubelet (deleted)", "mnt:[1]");
        process("9", "kubelet", "/usr/bin/kubelet", "mnt:[2]");
        process("10", "kubelet", "/usr/bin/python3", "mnt:[1]");
        process("11", "kube-proxy", "/usr/bin/kube-proxy", "mnt:[1]");
        fs::create_dir(proc.path().join("12")).unwrap();
        let mut found = kubelets(proc.path()).unwrap();
        found.sort_by_key(|found| found.pid);
        let expected = |pid| KubeletProcess {
            pid,
            arguments: vec!["--config".to_owned(), "a.yaml".to_owned()],
            cwd: "/srv".into(),
        };
        assert_eq!(found, [expected(7), expected(8)]);
        assert!(kubelets(Path::new("/proc")).is_ok());
    }
}

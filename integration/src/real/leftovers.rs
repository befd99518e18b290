//! Removes a host by its ID alone, and checks that nothing of it is left. Kills processes by PID only, and only those with the ID in
//! an argument or in its cgroup.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::host::Dirs;
use crate::shell::lib;

/// Number of checks for killed processes: a minute in total.
const END_LOOKS: u32 = 3000;
/// Interval of these checks.
const END_PAUSE: Duration = Duration::from_millis(20);

/// Programs of a host besides its pods.
const PROGRAMS: [&str; 9] = [
    "containerd",
    "containerd-shim-runc-v2",
    "etcd",
    "hostlet",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
];

/// Removes everything of a host: processes, pods, mounts, cgroups, network namespace, directories.
pub(crate) fn remove(id: &str) -> Result<()> {
    let dirs = Dirs::of(id);
    end(&dirs)?;
    lib("remove_cni_results", [Path::new(id), &dirs.containerd_root()])?;
    lib("remove_log_links", [&dirs.state.join("logs")])?;
    lib("remove_netns", [id])?;
    for dir in [&dirs.run, &dirs.state, &dirs.disks()] {
        remove_dir(dir)?;
    }
    Ok(())
}

/// Kills all processes of a host, including pods', and removes its cgroups and mounts.
pub(super) fn end(dirs: &Dirs) -> Result<()> {
    for pid in processes(&dirs.id) {
        match kill(Pid::from_raw(pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("killing {pid}")),
        }
    }
    // A killed process exists for a moment longer and keeps its resources.
    for _ in 0..END_LOOKS {
        if processes(&dirs.id).is_empty() {
            break;
        }
        std::thread::sleep(END_PAUSE);
    }
    lib("end_shims", [&dirs.containerd_socket(), &dirs.containerd_state()])?;
    lib("remove_cgroup", [&dirs.id])?;
    for dir in [&dirs.run, &dirs.state] {
        lib("unmount_below", [dir])?;
    }
    Ok(())
}

/// Removes a directory without mounts.
pub(super) fn remove_dir(dir: &Path) -> Result<()> {
    lib("remove_dir", [dir])?;
    Ok(())
}

/// Removes the hosts of dead test processes. Failures are left to the next test.
pub(super) fn remove_abandoned() {
    for entry in fs::read_dir("/run").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix("hl-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = remove(&name);
        }
    }
}

/// The leftovers of the host `id`, one line each: processes, mounts, cgroups, network namespace, directories. Empty after a host
/// was dropped.
pub fn leftovers(id: &str) -> Result<Vec<String>> {
    let dirs = Dirs::of(id);
    let mut left: Vec<String> = processes(id).into_iter().map(|pid| format!("process {pid}")).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
    left.extend(mounts.lines().filter(|line| mentions(line, id)).map(|line| format!("mount {line}")));
    left.extend(lib("cgroup_dirs", [id])?.lines().map(|dir| format!("cgroup {dir}")));
    let results =
        fs::read_dir("/var/lib/cni/results").into_iter().flatten().flatten().map(|entry| entry.path());
    left.extend(results.filter(|path| mentions(&path.to_string_lossy(), id)).map(|path| format!("{path:?}")));
    let links = fs::read_dir("/var/log/containers").into_iter().flatten().flatten();
    let targets = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    left.extend(targets.filter(|to| to.starts_with(&dirs.state)).map(|to| format!("link to {to:?}")));
    let paths = [dirs.disks(), dirs.state, dirs.run, Path::new("/run/netns").join(id)];
    left.extend(paths.iter().filter(|path| path.exists()).map(|path| format!("{path:?}")));
    Ok(left)
}

/// The processes of a host: its programs, with its ID in an argument. Zombies have no arguments.
fn processes(id: &str) -> Vec<i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let args = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let args = String::from_utf8_lossy(&args);
            let mut args = args.split('\0');
            let program = args.next().and_then(|path| path.rsplit('/').next());
            program.is_some_and(|name| PROGRAMS.contains(&name)) && args.any(|arg| mentions(arg, id))
        })
        .collect()
}

/// Whether `text` contains `id` as a whole name: `hl-7-1` is not in `hl-7-12`.
fn mentions(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + id.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_matches_completely() {
        assert!(mentions("/run/hl-7-1/containerd.sock", "hl-7-1"));
        assert!(mentions("hl-7-1", "hl-7-1"));
        assert!(!mentions("/run/hl-7-12/containerd.sock", "hl-7-1"));
        assert!(!mentions("/run/xhl-7-1", "hl-7-1"));
        assert!(mentions("/run/hl-7-12 /run/hl-7-1", "hl-7-1"));
    }

    #[test]
    fn nothing_is_left_of_a_failed_start() {
        assert_eq!(leftovers("hl-0-0").unwrap(), Vec::<String>::new());
    }
}

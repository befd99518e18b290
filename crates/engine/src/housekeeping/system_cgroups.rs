//! Keeps the daemon and the host's other processes in the cgroups that are configured for them, as upstream does where no service manager
//! has placed them. Moves no process that is in a cgroup already, except the daemon.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use hostlet_base::error_chain;
use hostlet_host::cgroup::{CgroupError, Cgroups, own_cgroup};
use hostlet_host::file_work;
use hostlet_telemetry::Changed;

/// Upstream's interval.
const PERIOD: Duration = Duration::from_secs(60);

/// Processes moved by one round; others may be started meanwhile.
const ATTEMPTS: usize = 10;

/// Moves processes of the host into the configured cgroups, each minute.
#[derive(Clone)]
pub struct SystemCgroups {
    /// The host's cgroups.
    pub cgroups: Arc<Cgroups>,
    /// Mount point of procfs, `/proc` outside tests.
    pub proc: PathBuf,
    /// The cgroup of the daemon (`kubeletCgroups`), unless systemd has placed it in one.
    pub kubelet: Option<String>,
    /// The cgroup of processes that are in none (`systemCgroups`).
    pub system: Option<String>,
}

impl SystemCgroups {
    /// Runs until cancelled. The processes stay where they are.
    pub async fn run(self, cancel: CancellationToken) {
        let mut failed = Changed::new();
        loop {
            let this = self.clone();
            let result = file_work(move || this.place()).await;
            let problem = match &result {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error_chain(error)),
                Err(error) => Some(error.to_string()),
            };
            if let (true, Some(error)) = (failed.see(problem.clone()), problem) {
                tracing::warn!(error, "cannot place processes in the configured cgroups; trying again");
            }
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a sleep.
                () = sleep(PERIOD) => {}
            }
        }
    }

    fn place(&self) -> Result<(), CgroupError> {
        if let Some(path) = self.kubelet.as_ref().filter(|path| !self.is_in(path)) {
            self.cgroups.place(path, &[std::process::id()])?;
        }
        let Some(path) = &self.system else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            let pids: Vec<u32> =
                self.cgroups.root_processes()?.into_iter().filter(|pid| self.may_move(*pid)).collect();
            if pids.is_empty() {
                return Ok(());
            }
            tracing::debug!(?pids, path, "moving processes that are in no cgroup");
            self.cgroups.place(path, &pids)?;
        }
        Ok(())
    }

    /// Whether the daemon is in this cgroup, as where the service manager has placed it there.
    fn is_in(&self, path: &str) -> bool {
        let text = fs::read_to_string(self.proc.join("self/cgroup")).unwrap_or_default();
        let own = own_cgroup(&text, self.cgroups.version());
        own.as_deref().map(|own| own.trim_end_matches('/')) == Some(path.trim_end_matches('/'))
    }

    /// Neither init nor a thread of the kernel, which have no program.
    fn may_move(&self, pid: u32) -> bool {
        let program = fs::read_link(self.proc.join(format!("{pid}/exe")));
        pid > 1 && !program.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use hostlet_host::cgroup::CgroupVersion;
    use hostlet_observe::stats::testing::FakeHost;

    #[tokio::test]
    async fn processes_without_a_cgroup_and_the_daemon_are_moved() {
        let host = FakeHost::new(CgroupVersion::V2);
        for path in ["/kubelet", "/system"] {
            host.add_cgroup(path);
            host.set(path, "cgroup.procs", "");
        }
        host.set("/", "cgroup.subtree_control", "");
        host.set("/", "cgroup.procs", "1\n2\n4711\n");
        for pid in [1, 4711] {
            let directory = host.proc().join(pid.to_string());
            fs::create_dir_all(&directory).unwrap();
            symlink("/bin/true", directory.join("exe")).unwrap();
        }
        let task = |kubelet: &str| SystemCgroups {
            cgroups: host.cgroups.clone(),
            proc: host.proc(),
            kubelet: Some(kubelet.to_owned()),
            system: Some("/system".to_owned()),
        };
        task("/kubelet").place().unwrap();
        let processes =
            |path: &str| fs::read_to_string(host.path().join("cgroup").join(path).join("cgroup.procs"));
        assert_eq!(processes("kubelet").unwrap(), std::process::id().to_string());
        // A plain file has only what was written last.
        assert_eq!(processes("system").unwrap(), "4711");
        let before = processes("system.slice/hostlet.service").unwrap();
        task("/system.slice/hostlet.service/").place().unwrap();
        assert_eq!(processes("system.slice/hostlet.service").unwrap(), before, "it is there already");
        assert!(task("/..").place().unwrap_err().to_string().contains("not an absolute path"));
    }
}

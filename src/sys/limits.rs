//! The daemon's own limits: how readily the kernel kills it, how many files it may open, how many heaps it has. A host that
//! does not permit a change is a value, not an error: the daemon runs on with a warning.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::SysError;

/// Whether a limit is as asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is.
    Done,
    /// The capability for it (CAP_SYS_RESOURCE) is missing, as in many containers; it stays as it was, or as near to what
    /// was asked as is permitted.
    NotPermitted,
}

/// Sets how readily the kernel kills this process when memory runs out, -1000 to 1000, through procfs at `proc`. Lowering
/// it needs CAP_SYS_RESOURCE.
pub fn set_oom_score_adj(proc: &Path, score: i32) -> Result<Applied, SysError> {
    let path = proc.join("self/oom_score_adj");
    match fs::write(&path, score.to_string()) {
        Ok(()) => Ok(Applied::Done),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(Applied::NotPermitted),
        Err(source) => Err(SysError::Write { path, value: score.to_string(), source }),
    }
}

/// Lets this process open `files` files at once. Where raising the hard limit needs CAP_SYS_RESOURCE and it is missing,
/// the soft limit is raised to the hard one.
pub fn raise_open_files(files: u64) -> Result<Applied, SysError> {
    let failed =
        |operation| move |errno: Errno| SysError::OpenFiles { operation, source: io::Error::from(errno) };
    match setrlimit(Resource::RLIMIT_NOFILE, files, files) {
        Ok(()) => Ok(Applied::Done),
        Err(Errno::EPERM) => {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed("read"))?;
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(failed("set"))?;
            Ok(Applied::NotPermitted)
        }
        Err(errno) => Err(failed("set")(errno)),
    }
}

/// Has all threads share one heap. glibc gives each a heap of its own, and what is freed in one is of no use to another:
/// with 500 pods that was 3 MB. They allocate too seldom to be in each other's way. To be called before there are threads.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "the allocator's settings have no safe interface")]
    // SAFETY: it takes two numbers and sets a limit; no memory of ours is involved.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_the_own_score_is_always_permitted() {
        let path = Path::new("/proc/self/oom_score_adj");
        let before: i32 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
        assert_eq!(set_oom_score_adj(Path::new("/proc"), before.max(1)).unwrap(), Applied::Done);
        assert_eq!(fs::read_to_string(path).unwrap().trim(), before.max(1).to_string());
        // Back down to where it was: permitted without the capability too, since Linux keeps the least score set with it.
        set_oom_score_adj(Path::new("/proc"), before).unwrap();
    }

    #[test]
    fn a_score_that_cannot_be_written_is_an_error_or_not_permitted() {
        let error = set_oom_score_adj(Path::new("/nowhere"), -999).unwrap_err();
        assert_eq!(error.to_string(), "cannot write -999 to /nowhere/self/oom_score_adj");
        // Out of range: refused by the kernel, and no matter of permission.
        assert!(matches!(set_oom_score_adj(Path::new("/proc"), 5000), Err(SysError::Write { .. })));
    }

    #[test]
    fn the_hard_limit_can_be_had() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(raise_open_files(hard).unwrap(), Applied::Done);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}

//! The daemon's own limits: OOM score, open files, and the heap. A change that the host does not permit is a value, not an
//! error: the daemon continues with a warning.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::SysError;

/// The result of setting a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Set as requested.
    Done,
    /// CAP_SYS_RESOURCE is missing, as in many containers; the limit is unchanged or as close to the request as permitted.
    NotPermitted,
}

/// Sets this process's OOM score adjustment, -1000 to 1000, through procfs at `proc`. Lowering it needs CAP_SYS_RESOURCE.
pub fn set_oom_score_adj(proc: &Path, score: i32) -> Result<Applied, SysError> {
    let path = proc.join("self/oom_score_adj");
    match fs::write(&path, score.to_string()) {
        Ok(()) => Ok(Applied::Done),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(Applied::NotPermitted),
        Err(source) => Err(SysError::Write { path, value: score.to_string(), source }),
    }
}

/// Sets this process's limit of open files. If raising the hard limit fails without CAP_SYS_RESOURCE, the soft limit is raised to
/// the hard one.
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

/// Allocations of this many bytes or more go back to the kernel when they are freed. By itself, glibc raises this limit to the largest
/// one freed so far, and keeps the memory of each large answer.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 64 << 10;

/// Makes all threads share one malloc arena, from which large allocations are apart. glibc's per-thread arenas cannot share freed
/// memory, which cost 3 MB with 500 pods, and the threads allocate too rarely for contention. Call it before starting threads.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    for (setting, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGE)] {
        #[allow(unsafe_code, reason = "the allocator's settings have no safe interface")]
        // SAFETY: takes two numbers and sets a limit; no memory of ours is involved.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// Releases the free pages of the heap to the kernel (malloc_trim(3)). By itself, glibc releases only those at the end of the heap.
/// Allocations of other threads wait meanwhile: some milliseconds with 500 pods.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "the allocator has no safe interface")]
    // SAFETY: frees nothing that is in use, and may be called at any time by any thread (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_the_own_oom_score_is_always_permitted() {
        let path = Path::new("/proc/self/oom_score_adj");
        let before: i32 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
        assert_eq!(set_oom_score_adj(Path::new("/proc"), before.max(1)).unwrap(), Applied::Done);
        assert_eq!(fs::read_to_string(path).unwrap().trim(), before.max(1).to_string());
        // Lowering it to the previous value is permitted without the capability, because Linux keeps a minimum.
        set_oom_score_adj(Path::new("/proc"), before).unwrap();
    }

    #[test]
    fn a_score_that_cannot_be_written_is_an_error_or_not_permitted() {
        let error = set_oom_score_adj(Path::new("/nowhere"), -999).unwrap_err();
        assert_eq!(error.to_string(), "cannot write -999 to /nowhere/self/oom_score_adj");
        // Out of range: rejected by the kernel independent of permissions.
        assert!(matches!(set_oom_score_adj(Path::new("/proc"), 5000), Err(SysError::Write { .. })));
    }

    #[test]
    fn memory_in_use_survives_a_trim() {
        let kept: Vec<Vec<u8>> = (0..1_000_u32)
            .map(|number| {
                drop(vec![1_u8; 5_000]);
                vec![number.to_le_bytes()[0]; 3_000]
            })
            .collect();
        trim_heap();
        assert!((0..1_000_u32).zip(&kept).all(|(number, bytes)| *bytes == [number.to_le_bytes()[0]; 3_000]));
    }

    #[test]
    fn the_hard_limit_can_be_reached() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(raise_open_files(hard).unwrap(), Applied::Done);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}

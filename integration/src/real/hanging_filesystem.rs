//! An empty filesystem that hangs on request, as one of the network whose server is away: FUSE, served by a thread of the test. The kernel
//! asks it for every `stat`, and whoever asks while it hangs waits in the kernel.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::libc::{ENOENT, ENOSYS, O_NONBLOCK, S_IFDIR};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use parking_lot::{Condvar, Mutex};

/// Bytes of a request's header, and of the largest request.
const HEADER: usize = 40;
const LARGEST: usize = 1 << 20;

/// The inode of its root, which is all that it has.
const ROOT: u64 = 1;

/// Requests, by their numbers (`linux/fuse.h`).
mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const STATFS: u32 = 17;
    pub(super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const READDIR: u32 = 28;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// Whether it hangs.
#[derive(Debug, Default)]
struct Gate {
    hangs: Mutex<bool>,
    changed: Condvar,
}

/// The filesystem. Dropping it fails all that wait for it.
#[derive(Debug)]
pub struct HangingFilesystem {
    at: PathBuf,
    gate: Arc<Gate>,
}

impl HangingFilesystem {
    /// Mounts it on a directory. Answers at first.
    pub fn mount(at: &Path) -> Result<Self> {
        let device = File::options().read(true).write(true).custom_flags(O_NONBLOCK).open("/dev/fuse");
        let device = device.context("opening /dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("hanging"), at, Some("fuse.hanging"), flags, Some(options.as_str()))
            .with_context(|| format!("mounting a filesystem on {}", at.display()))?;
        let gate = Arc::<Gate>::default();
        let served = gate.clone();
        let mounted = Self { at: at.to_owned(), gate };
        thread::Builder::new().name("hanging-fs".to_owned()).spawn(move || serve(device, &served))?;
        Ok(mounted)
    }

    /// Answers nothing from now on.
    pub fn hang(&self) {
        *self.gate.hangs.lock() = true;
    }

    /// Answers again, also what was asked meanwhile.
    pub fn respond(&self) {
        *self.gate.hangs.lock() = false;
        self.gate.changed.notify_all();
    }
}

impl Drop for HangingFilesystem {
    fn drop(&mut self) {
        // What waits for it fails, and so does the thread's next read.
        let _ = umount2(&self.at, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH);
        self.respond();
    }
}

/// Serves until it is unmounted.
fn serve(mut device: File, gate: &Gate) {
    let mut request = vec![0; LARGEST];
    loop {
        // What hangs is not even read: a request that the server has taken can no longer be killed with whoever made it, as requests to
        // a server of NFS can. So no read may be under way when the filesystem begins to hang.
        {
            let mut hangs = gate.hangs.lock();
            gate.changed.wait_while(&mut hangs, |hangs| *hangs);
        }
        let length = match device.read(&mut request) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(2));
                continue;
            }
            Err(error) if [ErrorKind::Interrupted, ErrorKind::NotFound].contains(&error.kind()) => continue,
            Err(_) => return,
        };
        if let Some(answer) = request.get(..length.min(HEADER)).and_then(answer) {
            // Whoever asked may have been killed.
            let _ = device.write_all(&answer);
        }
    }
}

/// The answer to a request with this header; `None` if it gets none.
fn answer(header: &[u8]) -> Option<Vec<u8>> {
    let opcode = u32::from_ne_bytes(header.get(4..8)?.try_into().ok()?);
    let unique = header.get(8..16)?;
    let (error, body) = match opcode {
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => return None,
        opcode::INIT => (0, init()),
        opcode::GETATTR => (0, attributes()),
        // All of them 0.
        opcode::STATFS => (0, vec![0; 80]),
        opcode::OPENDIR => (0, vec![0; 16]),
        opcode::READDIR | opcode::RELEASEDIR => (0, Vec::new()),
        opcode::LOOKUP => (ENOENT, Vec::new()),
        _ => (ENOSYS, Vec::new()),
    };
    let length = u32::try_from(16 + body.len()).ok()?;
    let mut answer = Vec::new();
    answer.extend(length.to_ne_bytes());
    answer.extend((-error).to_ne_bytes());
    answer.extend(unique);
    answer.extend(body);
    Some(answer)
}

/// `struct fuse_init_out`: protocol 7.31 without options.
fn init() -> Vec<u8> {
    let mut body = Vec::new();
    for number in [7_u32, 31, 4096, 0] {
        body.extend(number.to_ne_bytes());
    }
    for number in [12_u16, 9] {
        body.extend(number.to_ne_bytes());
    }
    body.extend(4096_u32.to_ne_bytes());
    body.resize(64, 0);
    body
}

/// `struct fuse_attr_out` of the root, valid for no time: the kernel asks again.
fn attributes() -> Vec<u8> {
    let mut body = vec![0; 16];
    for number in [ROOT, 4096, 8, 0, 0, 0] {
        body.extend(number.to_ne_bytes());
    }
    for number in [0, 0, 0, S_IFDIR | 0o777, 2, 0, 0, 0, 4096, 0] {
        body.extend(number.to_ne_bytes());
    }
    body
}

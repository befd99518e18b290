//! A disk of a host of its own, which tests fill, freeze and break: ext4 in a file. Knows nothing of what is stored on it.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

use crate::shell::run;

/// The file that fills a disk.
const FILLER: &str = ".filler";
/// The unit in which the last free space is taken.
const BLOCK: usize = 4096;

/// A mounted disk. Unmounted and removed with its host.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
    is_synced: bool,
}

impl Disk {
    /// Makes a disk of this many bytes whose file is `image`, and mounts it on the directory `at`. All that is written is on the disk
    /// at once if `is_synced`.
    pub(super) fn make(image: &Path, at: &Path, bytes: u64, is_synced: bool) -> Result<Self> {
        let file = File::create(image).with_context(|| format!("creating {}", image.display()))?;
        file.set_len(bytes).with_context(|| format!("resizing {}", image.display()))?;
        // Nothing is reserved for root, who fills it.
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image))?;
        let disk = Self { image: image.to_owned(), at: at.to_owned(), is_synced };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Leaves no byte free.
    pub fn fill(&self) -> Result<()> {
        let path = self.at.join(FILLER);
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("creating {}", path.display()))?;
        let free = statvfs(&self.at).context("reading the free space of a disk")?;
        let bytes = i64::try_from(free.blocks_available().saturating_mul(free.fragment_size()))?;
        // What others take meanwhile may leave too little for all of it at once.
        for share in [bytes, bytes / 2] {
            if share > 0 && fallocate(&file, FallocateFlags::empty(), 0, share).is_ok() {
                break;
            }
        }
        loop {
            match file.write_all(&[0; BLOCK]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error).with_context(|| format!("writing {}", path.display())),
            }
        }
    }

    /// Frees again what [`Disk::fill`] took.
    pub fn relieve(&self) -> Result<()> {
        let path = self.at.join(FILLER);
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))
    }

    /// Freezes it for a while: whoever writes waits in the kernel, SIGKILL or not. The child ends when it is over, whatever the test
    /// waits for meanwhile.
    pub fn freeze(&self, time: Duration) -> Result<Child> {
        const SCRIPT: &str = r#"fsfreeze --freeze "$1" && sleep "$2"; fsfreeze --unfreeze "$1""#;
        let time = time.as_secs_f64().to_string();
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(&self.at).arg(time);
        command.spawn().context("freezing a disk")
    }

    /// Lets the kernel find an error on it, after which it is read-only, and loses what was written and not synced.
    pub fn break_down(&self) -> Result<()> {
        let device = run(Command::new("findmnt")
            .args(["--noheadings", "--first-only", "--output", "SOURCE"])
            .arg(&self.at))?;
        let device = Path::new(device.trim()).file_name().context("a device without a name")?;
        let trigger = Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error");
        fs::write(&trigger, "1").with_context(|| format!("writing {}", trigger.display()))
    }

    /// Mounts it again, as a reboot does. Nobody may use it.
    pub fn remount(&self) -> Result<()> {
        run(Command::new("umount").arg(&self.at))?;
        // A mount namespace that somebody on this machine has made meanwhile may still have the file system of before, which the same
        // file would be again.
        let copy = self.image.with_extension("copy");
        fs::copy(&self.image, &copy).with_context(|| format!("copying {}", self.image.display()))?;
        fs::rename(&copy, &self.image).with_context(|| format!("renaming {}", copy.display()))?;
        self.mount()
    }

    fn mount(&self) -> Result<()> {
        let options = if self.is_synced { "loop,errors=remount-ro,sync" } else { "loop,errors=remount-ro" };
        run(Command::new("mount").args(["-o", options]).arg(&self.image).arg(&self.at))?;
        // As the root of a host is under systemd.
        run(Command::new("mount").arg("--make-shared").arg(&self.at))?;
        Ok(())
    }
}

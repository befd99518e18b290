//! Filesystems of block devices: finds out what a device holds, makes a filesystem on one that holds nothing, repairs what can be
//! repaired without a decision, and grows it, with the host's blkid(8), mkfs(8), fsck(8), resize2fs(8), xfs_growfs(8) and btrfs(8). The wording of errors is upstream's (`mount-utils`).
//! Blocking.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What of a device must be readable before anything is written to it, in bytes.
const PROBED: usize = 64 << 10;

/// blkid(8) found nothing.
const NOTHING_FOUND: i32 = 2;

/// fsck(8) could not repair all.
const UNREPAIRED: i32 = 4;

/// Why the filesystem of a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum DiskError {
    /// It is not known what the device holds.
    #[error("failed to get disk format of disk {}: {why}", device.display())]
    Format { device: PathBuf, why: String },
    /// It holds nothing, and nothing may be written.
    #[error("cannot mount unformatted disk {} as we are manipulating it in read-only mode", device.display())]
    ReadOnly { device: PathBuf },
    /// No filesystem could be made.
    #[error("format of disk {:?} failed: type:({fs_type:?}) output:({output})", device.display().to_string())]
    Make { device: PathBuf, fs_type: String, output: String },
    /// Its filesystem is damaged.
    #[error("'fsck' found errors on device {} but could not correct them: {output}", device.display())]
    Damaged { device: PathBuf, output: String },
    /// It is not known what is to be grown.
    #[error("ResizeFS.Resize - error checking format for device {}: {why}", device.display())]
    GrowUnknown { device: PathBuf, why: Box<DiskError> },
    /// Filesystems of this type do not grow.
    #[error(
        "ResizeFS.Resize - resize of format {fs_type} is not supported for device {} mounted at {}",
        device.display(), mounted_at.display()
    )]
    GrowUnsupported { device: PathBuf, mounted_at: PathBuf, fs_type: String },
    /// The filesystem did not grow.
    #[error("resize of device {} failed: {why}. {program} output: {output}", of.display())]
    Grow { of: PathBuf, program: &'static str, why: String, output: String },
    /// A loop device is not detached.
    #[error("losetup -d {} failed: {output}", device.display())]
    Detach { device: PathBuf, output: String },
}

/// What is done to block devices. Blocking, for minutes. A trait, because tests without devices need a substitute.
pub trait Disks: Send + Sync + 'static {
    /// The type of the filesystem on `device`; `None` if blkid(8) finds nothing at all on it.
    ///
    /// # Errors
    /// That is not known: the device cannot be read, or blkid(8) is undecided.
    fn format(&self, device: &Path) -> Result<Option<String>, DiskError>;

    /// Makes a filesystem, whatever is on the device.
    fn make(&self, device: &Path, fs_type: &str) -> Result<(), DiskError>;

    /// Repairs the filesystem as far as that needs no decision.
    ///
    /// # Errors
    /// Errors remain. That fsck(8) cannot check it is none.
    fn repair(&self, device: &Path) -> Result<(), DiskError>;

    /// Makes the filesystem of `device`, which is mounted at `mounted_at`, as large as the device. Nothing happens if it is so already, and on
    /// a device without a filesystem.
    ///
    /// # Errors
    /// It is as large as before: it is of a type that does not grow, or its program is missing or failed.
    fn grow(&self, device: &Path, mounted_at: &Path) -> Result<(), DiskError>;
}

/// Makes the filesystem of a device ready for being mounted: makes one of this type on a device with nothing on it, never on another;
/// repairs an existing one.
pub fn prepare_disk(
    disks: &dyn Disks,
    device: &Path,
    fs_type: &str,
    read_only: bool,
) -> Result<(), DiskError> {
    match disks.format(device)? {
        None if read_only => Err(DiskError::ReadOnly { device: device.to_owned() }),
        None => {
            tracing::info!(device = %device.display(), fs_type, "making a filesystem on a device without one");
            disks.make(device, fs_type)
        }
        Some(_) if read_only => Ok(()),
        Some(_) => disks.repair(device),
    }
}

/// The host's programs.
#[derive(Clone, Copy, Debug)]
pub struct HostDisks;

impl Disks for HostDisks {
    fn format(&self, device: &Path) -> Result<Option<String>, DiskError> {
        let unknown = |why: String| DiskError::Format { device: device.to_owned(), why };
        // To blkid(8), a device that cannot be read is as one with nothing on it.
        probe(device).map_err(|error| unknown(error.to_string()))?;
        let arguments = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"].map(OsStr::new);
        let run = run("blkid", arguments.into_iter().chain([device.as_os_str()]));
        let run = run.map_err(|error| unknown(error.to_string()))?;
        match run.status.code() {
            Some(0) => found(&String::from_utf8_lossy(&run.stdout))
                .map(Some)
                .ok_or_else(|| unknown(format!("blkid returned output without a type: {}", text(&run)))),
            Some(NOTHING_FOUND) => Ok(None),
            Some(_) | None => Err(unknown(text(&run))),
        }
    }

    fn make(&self, device: &Path, fs_type: &str) -> Result<(), DiskError> {
        let failed = |output: String| {
            let (device, fs_type) = (device.to_owned(), fs_type.to_owned());
            DiskError::Make { device, fs_type, output }
        };
        let options: &[&str] = match fs_type {
            "ext3" | "ext4" => &["-F", "-m0"],
            "xfs" => &["-f"],
            _ => &[],
        };
        let arguments = options.iter().map(OsStr::new).chain([device.as_os_str()]);
        let run = run(&format!("mkfs.{fs_type}"), arguments).map_err(|error| failed(error.to_string()))?;
        if run.status.success() { Ok(()) } else { Err(failed(text(&run))) }
    }

    fn repair(&self, device: &Path) -> Result<(), DiskError> {
        let run = match run("fsck", [OsStr::new("-a"), device.as_os_str()]) {
            Ok(run) => run,
            Err(error) => {
                tracing::warn!(device = %device.display(), %error, "a filesystem is not checked, as fsck cannot be run");
                return Ok(());
            }
        };
        match run.status.code() {
            Some(UNREPAIRED) => Err(DiskError::Damaged { device: device.to_owned(), output: text(&run) }),
            Some(0) => Ok(()),
            Some(_) | None => {
                tracing::info!(device = %device.display(), output = text(&run), "fsck");
                Ok(())
            }
        }
    }

    fn grow(&self, device: &Path, mounted_at: &Path) -> Result<(), DiskError> {
        let unknown = |why| DiskError::GrowUnknown { device: device.to_owned(), why: Box::new(why) };
        let Some(fs_type) = self.format(device).map_err(unknown)? else { return Ok(()) };
        let at = mounted_at.as_os_str();
        match fs_type.as_str() {
            "ext3" | "ext4" => grow_with("resize2fs", &[device.as_os_str()], device),
            "xfs" => grow_with("xfs_growfs", &[OsStr::new("-d"), at], mounted_at),
            "btrfs" => {
                let subcommand = ["filesystem", "resize", "max"].map(OsStr::new);
                grow_with("btrfs", &[subcommand.as_slice(), &[at]].concat(), mounted_at)
            }
            _ => {
                let (device, mounted_at) = (device.to_owned(), mounted_at.to_owned());
                Err(DiskError::GrowUnsupported { device, mounted_at, fs_type })
            }
        }
    }
}

/// Grows with a program of the host. `of` is what is named in errors.
fn grow_with(program: &'static str, arguments: &[&OsStr], of: &Path) -> Result<(), DiskError> {
    let failed = |why: String, output: String| DiskError::Grow { of: of.to_owned(), program, why, output };
    let run = run(program, arguments.iter().copied());
    let run = run.map_err(|error| failed(error.to_string(), String::new()))?;
    if run.status.success() { Ok(()) } else { Err(failed(run.status.to_string(), output(&run))) }
}

/// Reads the beginning of a device.
fn probe(device: &Path) -> io::Result<()> {
    let mut start = vec![0; PROBED];
    File::open(device)?.read_exact(&mut start)
}

/// What blkid(8) found: the type of a filesystem, or that there are partitions, with upstream's name for that.
fn found(output: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = output.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    if value("PTTYPE").is_some() {
        return Some("unknown data, probably partitions".to_owned());
    }
    value("TYPE")
}

pub(super) fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<Output> {
    Command::new(program).args(arguments).stdin(Stdio::null()).output()
}

pub(super) fn text(run: &Output) -> String {
    format!("{}: {}", run.status, output(run))
}

/// What it printed, on one line.
fn output(run: &Output) -> String {
    let output = [&*run.stdout, &*run.stderr].concat();
    String::from_utf8_lossy(&output).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::skipped;

    fn has(program: &str) -> bool {
        run(program, [OsStr::new("-V")]).is_ok()
    }

    #[test]
    fn what_blkid_says_is_understood() {
        assert_eq!(found("DEVNAME=/dev/x\nTYPE=ext4\n").as_deref(), Some("ext4"));
        assert_eq!(found("TYPE=ext4\nPTTYPE=dos\n").as_deref(), Some("unknown data, probably partitions"));
        assert_eq!(found("DEVNAME=/dev/x\n"), None);
    }

    #[test]
    fn a_filesystem_is_made_once_and_never_on_data() {
        if ["blkid", "mkfs.ext4", "fsck"].iter().any(|program| !has(program)) {
            return skipped("needs blkid, mkfs.ext4 and fsck");
        }
        let dir = tempfile::tempdir().unwrap();
        // The programs take a file as they take a device.
        let disk = dir.path().join("disk");
        File::create(&disk).unwrap().set_len(8 << 20).unwrap();
        let prepare = |read_only| prepare_disk(&HostDisks, &disk, "ext4", read_only);
        assert!(matches!(prepare(true), Err(DiskError::ReadOnly { .. })));
        assert_eq!(HostDisks.format(&disk).unwrap(), None);
        prepare(false).unwrap();
        assert_eq!(HostDisks.format(&disk).unwrap().as_deref(), Some("ext4"));
        let made = fs::read(&disk).unwrap();
        // The UUID would differ if it were made again.
        let uuid = |image: &[u8]| image[1024 + 0x68..1024 + 0x78].to_vec();
        prepare(true).unwrap();
        prepare_disk(&HostDisks, &disk, "xfs", false).unwrap();
        assert_eq!(uuid(&fs::read(&disk).unwrap()), uuid(&made));
        fs::write(&disk, b"too short").unwrap();
        assert!(matches!(prepare(false), Err(DiskError::Format { .. })), "it cannot be read");
        assert_eq!(fs::read(&disk).unwrap(), b"too short");
        assert!(matches!(HostDisks.make(&disk, "no-such-type"), Err(DiskError::Make { .. })));
    }
}

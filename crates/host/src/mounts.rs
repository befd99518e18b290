//! Reads the kernel's list of mounts; mounts and unmounts tmpfs, parts of other filesystems and what the host's mount(8) can mount. Never
//! unmounts lazily: a busy mount is an error.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::mount::{FsOpenFlags, fsconfig_set_flag, fsopen};

use super::{Inside, SysError, filesystem_usage};

/// The program that mounts what needs a helper.
const MOUNT: &str = "mount";

/// Prefixes of the types of filesystems that are not served by this kernel alone.
const REMOTE: [&str; 12] =
    ["nfs", "cifs", "smb", "fuse", "ceph", "9p", "virtiofs", "autofs", "afs", "lustre", "beegfs", "gpfs"];

/// A mount, as seen by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point, without symbolic links.
    pub point: PathBuf,
    /// Its filesystem type, e.g. `tmpfs`.
    pub filesystem: String,
    /// The device, directory or filesystem type that is mounted.
    pub origin: Origin,
    /// Whether what is mounted below it here is seen by others, and the reverse (`shared` of mount_namespaces(7)).
    pub is_shared: bool,
}

impl Mount {
    /// Whether its filesystem is not served by this kernel alone, so that accessing it may block as long as others do not respond.
    pub fn is_remote(&self) -> bool {
        REMOTE.iter().any(|remote| self.filesystem.starts_with(remote))
    }

    /// Whether its filesystem is NFS of any version.
    pub fn is_nfs(&self) -> bool {
        matches!(self.filesystem.as_str(), "nfs" | "nfs4")
    }
}

/// A directory of a filesystem, wherever that is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The filesystem's device number, `major:minor`.
    pub device: String,
    /// The directory, from the filesystem's root.
    pub dir: PathBuf,
}

/// A snapshot of the mounts, in mount order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountTable(Vec<Mount>);

impl MountTable {
    /// Parses `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)). Malformed lines are skipped.
    pub fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
    }

    /// The mounts at `point` itself, lowest first: mounts can be stacked.
    pub fn at<'a>(&'a self, point: &'a Path) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().filter(move |mount| mount.point == point)
    }

    /// The mount of `path`, by its name.
    pub fn of(&self, path: &Path) -> Option<&Mount> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.components().count())
    }

    /// What is at the path `dir`, but for mounts at that path itself.
    pub(crate) fn origin_below(&self, dir: &Path) -> Option<Origin> {
        let outer = self.of(dir.parent()?)?;
        let inside = dir.strip_prefix(&outer.point).ok()?;
        Some(Origin { device: outer.origin.device.clone(), dir: outer.origin.dir.join(inside) })
    }

    /// The mounts at or below `dir`.
    pub fn within<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().filter(move |mount| mount.point.starts_with(dir))
    }

    /// The mounts below the mount at `point` that have to be unmounted before it. NFS mounts below NFS do not: the kernel mounts the
    /// exports below an export when they are accessed, and unmounts them with it.
    pub fn inside<'a>(&'a self, point: &'a Path) -> impl Iterator<Item = &'a Mount> {
        let is_nfs = self.at(point).last().is_some_and(Mount::is_nfs);
        self.within(point).filter(move |mount| mount.point != point && !(is_nfs && mount.is_nfs()))
    }
}

impl FromIterator<Mount> for MountTable {
    fn from_iter<T: IntoIterator<Item = Mount>>(mounts: T) -> Self {
        Self(mounts.into_iter().collect())
    }
}

/// `36 35 98:0 /root /point options tags… - type source options`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = String::from_utf8_lossy(fields.nth(2)?).into_owned();
    let mut path = || Some(PathBuf::from(OsString::from_vec(unescape(fields.next()?))));
    let origin = Origin { device, dir: path()? };
    let point = path()?;
    let mut is_shared = false;
    fields
        .by_ref()
        .inspect(|field| is_shared |= field.starts_with(b"shared:"))
        .find(|field| *field == b"-")?;
    let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(Mount { point, filesystem, origin, is_shared })
}

/// Decodes the kernel's octal escapes of spaces, tabs, newlines and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (first, tail.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                rest = &tail[3..];
            }
            (byte, _) => {
                plain.push(*byte);
                rest = tail;
            }
        }
    }
    plain
}

/// A mount that mount(8) performs, whose helpers know network filesystems and all options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountCall {
    /// What is mounted: a path, or `server:/path`.
    pub source: String,
    /// The directory that it is mounted on.
    pub target: PathBuf,
    /// The type of its filesystem, unless a directory of this host is mounted.
    pub filesystem: Option<Cow<'static, str>>,
    /// The options, e.g. `bind` and `ro`.
    pub options: Vec<String>,
}

impl MountCall {
    /// The arguments of mount(8), without the name of the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(filesystem) = &self.filesystem {
            arguments.extend(["-t".into(), OsString::from(&**filesystem)]);
        }
        if !self.options.is_empty() {
            arguments.extend(["-o".into(), self.options.join(",").into()]);
        }
        // No source or target is taken for an option.
        arguments.extend(["--".into(), self.source.clone().into(), self.target.clone().into_os_string()]);
        arguments
    }
}

/// The mounts of the host. Blocking. A trait, because tests without root need a substitute.
pub trait Mounts: Send + Sync + 'static {
    /// The mounts in this process's mount namespace, in the order they were made.
    fn table(&self) -> Result<MountTable, SysError>;

    /// Mounts an empty tmpfs of at most `size` bytes on a directory, without swap if the kernel supports it.
    fn mount_tmpfs(&self, dir: &Path, size: u64) -> Result<(), SysError>;

    /// Mounts what is open, a file or a directory without the mounts in it, on `target`, which is of the same type.
    fn bind(&self, opened: &Inside, target: &Path) -> Result<(), SysError>;

    /// Mounts with mount(8). Takes minutes if a server does not respond.
    fn mount(&self, call: &MountCall) -> Result<(), SysError>;

    /// Unmounts the topmost mount at `path`.
    fn unmount(&self, path: &Path) -> Result<(), SysError>;

    /// The same, and what its filesystem waits for of its server fails, for all mounts of it (`umount -f`).
    fn force_unmount(&self, path: &Path) -> Result<(), SysError>;

    /// Returns once the server of the filesystem at `path` responds, whatever it answers.
    fn wait_for_server(&self, path: &Path);
}

/// Whether the kernel can keep the content of a tmpfs out of swap: Linux 6.3 and later, outside of user namespaces.
pub fn tmpfs_can_avoid_swap() -> bool {
    tmpfs_has_option("noswap")
}

/// Asks by describing a mount that is not made.
fn tmpfs_has_option(option: &str) -> bool {
    let tmpfs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC);
    tmpfs.and_then(|tmpfs| fsconfig_set_flag(tmpfs.as_fd(), option)).is_ok()
}

/// The kernel's mounts.
#[derive(Clone, Debug)]
pub struct KernelMounts {
    /// Its list, `/proc/self/mountinfo`.
    pub mountinfo: PathBuf,
}

impl Mounts for KernelMounts {
    fn table(&self) -> Result<MountTable, SysError> {
        let read = fs::read(&self.mountinfo);
        let text = read.map_err(|source| SysError::Read { path: self.mountinfo.clone(), source })?;
        Ok(MountTable::parse(&text))
    }

    fn mount_tmpfs(&self, dir: &Path, size: u64) -> Result<(), SysError> {
        let with = |options: &str| mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(options));
        let size = format!("size={size}");
        // `noswap` is supported since Linux 6.3.
        let mounted = match with(&format!("{size},noswap")) {
            Err(Errno::EINVAL) => with(&size),
            other => other,
        };
        mounted.map_err(|errno| SysError::MountTmpfs { path: dir.to_owned(), source: io::Error::from(errno) })
    }

    fn bind(&self, opened: &Inside, target: &Path) -> Result<(), SysError> {
        // By its descriptor: its name may lead elsewhere by now.
        let source = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
        let mounted = mount(Some(&*source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        mounted.map_err(|errno| SysError::Bind { path: target.to_owned(), source: io::Error::from(errno) })
    }

    fn mount(&self, call: &MountCall) -> Result<(), SysError> {
        let run = Command::new(MOUNT).args(call.arguments()).stdin(Stdio::null()).output();
        let run = run.map_err(|source| SysError::RunMount { path: call.target.clone(), source })?;
        if run.status.success() {
            return Ok(());
        }
        let arguments: Vec<_> =
            call.arguments().iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let output = [run.stdout, run.stderr].concat();
        Err(SysError::MountProgram {
            status: run.status.to_string().replace("exit status: ", "exit status "),
            arguments: arguments
                .into_iter()
                .filter(|argument| argument != "--")
                .collect::<Vec<_>>()
                .join(" "),
            output: String::from_utf8_lossy(&output).trim_end().to_owned(),
        })
    }

    fn unmount(&self, path: &Path) -> Result<(), SysError> {
        unmount(path, MntFlags::empty())
    }

    fn force_unmount(&self, path: &Path) -> Result<(), SysError> {
        unmount(path, MntFlags::MNT_FORCE)
    }

    fn wait_for_server(&self, path: &Path) {
        // The kernel does not know how full a remote filesystem is.
        let _ = filesystem_usage(path);
    }
}

fn unmount(path: &Path, flags: MntFlags) -> Result<(), SysError> {
    let unmounted = umount2(path, MntFlags::UMOUNT_NOFOLLOW | flags);
    unmounted.map_err(|errno| SysError::Unmount { path: path.to_owned(), source: io::Error::from(errno) })
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;

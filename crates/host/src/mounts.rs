//! Reads the kernel's list of mounts; mounts and unmounts tmpfs, parts of other filesystems and what the host's mount(8) can mount. Never
//! unmounts lazily: a busy mount is an error.

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
    pub filesystem: Option<&'static str>,
    /// The options, e.g. `bind` and `ro`.
    pub options: Vec<String>,
}

impl MountCall {
    /// The arguments of mount(8), without the name of the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(filesystem) = self.filesystem {
            arguments.extend(["-t".into(), filesystem.into()]);
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::skipped;

    const TEXT: &[u8] = b"25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        288 44 0:167 / /lib/pods/u/volumes/a rw,relatime shared:23 - tmpfs tmpfs rw,size=16384k\n\
        289 44 0:168 / /lib/pods/u/volumes/a rw - tmpfs tmpfs rw\n\
        290 44 0:169 / /lib/pods/u/with\\040space\\134 rw master:1 propagate_from:2 - fuse.x x rw\n\
        nonsense\n\n1 2 3 4 5 6\n";

    #[test]
    fn mounts_are_found_at_and_within() {
        let table = MountTable::parse(TEXT);
        let types = |mounts: Vec<&Mount>| mounts.iter().map(|m| m.filesystem.clone()).collect::<Vec<_>>();
        assert_eq!(types(table.at(Path::new("/lib/pods/u/volumes/a")).collect()), ["tmpfs", "tmpfs"]);
        assert_eq!(types(table.within(Path::new("/lib/pods/u")).collect()), ["tmpfs", "tmpfs", "fuse.x"]);
        assert_eq!(table.at(Path::new("/lib/pods/u/with space\\")).count(), 1);
        assert_eq!(
            table.within(Path::new("/lib/pods/u/vol")).count(),
            0,
            "a beginning of a name is no directory"
        );
        assert_eq!(table.within(Path::new("/")).count(), 4);
        let is_shared = |path: &str| table.of(Path::new(path)).unwrap().is_shared;
        assert!(is_shared("/lib") && !is_shared("/lib/pods/u/volumes/a/b"), "the topmost mount counts");
    }

    #[test]
    fn exports_below_an_export_are_unmounted_with_it() {
        let table = MountTable::parse(
            b"25 1 0:40 / /export rw - nfs4 server:/ rw\n\
            26 25 0:41 / /export/home rw - nfs4 server:/home rw\n\
            27 26 0:42 / /export/home/tmp rw - tmpfs tmpfs rw\n\
            28 1 254:0 / /data rw - ext4 /dev/vda rw\n\
            29 28 0:43 / /data/nfs rw - nfs server:/ rw\n",
        );
        let inside = |point: &str| -> Vec<PathBuf> {
            table.inside(Path::new(point)).map(|mount| mount.point.clone()).collect()
        };
        assert_eq!(inside("/export"), [Path::new("/export/home/tmp")]);
        assert_eq!(inside("/data"), [Path::new("/data/nfs")]);
        assert!(inside("/data/nfs").is_empty() && inside("/nowhere").is_empty());
    }

    #[test]
    fn the_kernel_tells_which_options_of_a_tmpfs_it_knows() {
        if fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).is_err() {
            return skipped("needs root on the host");
        }
        assert!(tmpfs_has_option("inode64") && !tmpfs_has_option("no-such-option"));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
        // An older kernel of a distribution may have it as well.
        if (numbers.next(), numbers.next()) >= (Some(6), Some(3)) {
            assert!(tmpfs_can_avoid_swap(), "Linux {release}");
        }
    }

    #[test]
    fn calls_have_mounts_arguments() {
        let text = |call: MountCall| call.arguments().join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        let nfs = MountCall {
            source: "[fd00::1]:/export".into(),
            target: "/pods/u/v".into(),
            filesystem: Some("nfs"),
            options: vec!["nfsvers=4.2".into(), "ro".into()],
        };
        assert_eq!(text(nfs.clone()), "-t nfs -o nfsvers=4.2,ro -- [fd00::1]:/export /pods/u/v");
        assert_eq!(
            text(MountCall { options: vec![], ..nfs.clone() }),
            "-t nfs -- [fd00::1]:/export /pods/u/v"
        );
        let bind = MountCall { source: "-odd".into(), filesystem: None, options: vec!["bind".into()], ..nfs };
        assert_eq!(text(bind), "-o bind -- -odd /pods/u/v");
    }

    #[test]
    fn a_failed_mount_says_what_the_program_said() {
        let target = tempfile::tempdir().unwrap();
        let mounts = KernelMounts { mountinfo: "/proc/self/mountinfo".into() };
        let call = MountCall {
            source: "/nowhere/at/all".into(),
            target: target.path().to_owned(),
            filesystem: None,
            options: vec!["bind".into()],
        };
        let text = mounts.mount(&call).unwrap_err().to_string();
        let start = "mount failed: exit status ";
        assert!(text.starts_with(start) && text.contains("/nowhere/at/all"), "{text}");
        assert!(
            text.contains("\nMounting command: mount\nMounting arguments: -o bind /nowhere/at/all "),
            "{text}"
        );
    }

    #[test]
    fn the_mounts_of_this_process_can_be_read() {
        let mounts = KernelMounts { mountinfo: "/proc/self/mountinfo".into() };
        assert!(mounts.table().unwrap().within(Path::new("/")).count() > 0);
        let error = KernelMounts { mountinfo: "/nowhere".into() }.table().unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere");
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let table = MountTable::parse(&text);
            prop_assert!(table.0.len() <= text.split(|byte| *byte == b'\n').count());
        }
    }
}

//! The files of cgroups: where each controller has them, and reading them with one buffer. A file that is missing, because the kernel
//! has no such file or the cgroup was removed, is `None`.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::read;

use crate::stats::parse;
use hostlet_host::cgroup::{CgroupVersion, Cgroups};

/// Larger than any of these files but the process list of a huge cgroup.
const BUFFER: usize = 8 * 1024;
/// A read that gives less has given all: the kernel makes these files in pages, which it fills with whole lines (seq_file).
const LESS_THAN_A_PAGE: usize = 2 * 1024;

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// Where the controllers that count have their cgroups. One that the host lacks is `None`.
#[derive(Clone, Debug)]
pub(crate) struct Accounting {
    pub(super) version: CgroupVersion,
    /// CPU time; with v2, as all others, the unified hierarchy.
    pub(super) cpu_time: Option<PathBuf>,
    /// Settings and throttling of the CPU.
    pub(super) cpu: Option<PathBuf>,
    pub(super) memory: Option<PathBuf>,
    /// Block devices.
    pub(super) io: Option<PathBuf>,
    /// Processes and threads.
    pub(super) pids: Option<PathBuf>,
}

impl Accounting {
    /// The mounts of this host's cgroup hierarchies.
    pub(crate) fn of(cgroups: &Cgroups) -> Self {
        let mount = |v1: &str, v2: &str| {
            let controller = match cgroups.version() {
                CgroupVersion::V1 => v1,
                CgroupVersion::V2 => v2,
            };
            cgroups.mount_of(controller).map(Path::to_owned)
        };
        Self {
            version: cgroups.version(),
            cpu_time: mount("cpuacct", "cpu"),
            cpu: mount("cpu", "cpu"),
            memory: mount("memory", "memory"),
            io: mount("blkio", "io"),
            pids: mount("pids", "pids"),
        }
    }
}

/// Reads cgroups one after the other. Blocking, but cgroupfs is in memory.
pub(crate) struct Reader<'a> {
    accounting: &'a Accounting,
    proc: &'a Path,
    /// The cgroup that is read.
    cgroup: Cgroup<'a>,
    buffer: Vec<u8>,
}

/// A cgroup with its directories that are open so far, by mount. Most of the time for a file is that for the directories of its path.
#[derive(Default)]
struct Cgroup<'a> {
    path: String,
    directories: Vec<(&'a Path, OwnedFd)>,
}

impl<'a> Cgroup<'a> {
    /// Its directory below this mount; `None` without one.
    fn directory(&mut self, mount: &'a Path) -> Option<&OwnedFd> {
        let is_of = |(of, _): &(&Path, OwnedFd)| of.as_os_str() == mount.as_os_str();
        if !self.directories.iter().any(is_of) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = openat(CWD, below(mount, &self.path), flags, Mode::empty()).ok()?;
            self.directories.push((mount, directory));
        }
        self.directories.iter().find(|of| is_of(of)).map(|(_, directory)| directory)
    }
}

impl<'a> Reader<'a> {
    /// A reader, with procfs at `proc`.
    pub(crate) fn new(accounting: &'a Accounting, proc: &'a Path) -> Self {
        Self { accounting, proc, cgroup: Cgroup::default(), buffer: vec![0; BUFFER] }
    }

    /// Reads the cgroup at `path` below the mounts from now on. Returns its creation; `None` if it does not exist.
    pub(super) fn enter(&mut self, path: &str) -> Option<Timestamp> {
        self.cgroup = Cgroup { path: path.to_owned(), directories: Vec::new() };
        self.created_at()
    }

    /// The directories in the cgroup at `path`.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let directory = self.accounting.memory.as_deref().map(|mount| below(mount, path));
        let Some(Ok(entries)) = directory.map(fs::read_dir) else { return Vec::new() };
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let names = entries.flatten().filter(is_dir).map(|entry| entry.file_name().into_string());
        names.flatten().collect()
    }

    /// The text of a file of procfs.
    pub(crate) fn proc_text(&mut self, file: &str) -> Option<&str> {
        let opened = openat(CWD, self.proc.join(file), READ, Mode::empty()).ok()?;
        self.load(&opened)
    }

    /// The creation of the cgroup: nothing else changes the time of this file, which changes the time of the directory.
    fn created_at(&mut self) -> Option<Timestamp> {
        let directory = self.cgroup.directory(self.accounting.memory.as_deref()?)?;
        let file = match self.accounting.version {
            CgroupVersion::V1 => "cgroup.clone_children",
            CgroupVersion::V2 => "cgroup.events",
        };
        let of_directory = modified(&fstat(directory).ok()?)?;
        let of_file = statat(directory, file, AtFlags::empty()).ok().as_ref().and_then(modified);
        Some(of_file.map_or(of_directory, |of_file| of_file.min(of_directory)))
    }

    /// The text of a file of the cgroup.
    pub(super) fn text(&mut self, mount: Option<&'a Path>, file: &str) -> Option<&str> {
        let opened = openat(self.cgroup.directory(mount?)?, file, READ, Mode::empty()).ok()?;
        self.load(&opened)
    }

    /// The number in a file of the cgroup.
    pub(super) fn number(&mut self, mount: Option<&'a Path>, file: &str) -> Option<u64> {
        parse::number(self.text(mount, file)?)
    }

    /// The limit in a file of the cgroup.
    pub(super) fn limit(&mut self, mount: Option<&'a Path>, file: &str) -> Option<u64> {
        self.number(mount, file).filter(is_limit)
    }

    /// The limit of swap. A kernel without accounting of swap has no such file, and upstream reads 0.
    pub(super) fn swap_limit(&mut self, file: &str) -> Option<u64> {
        let limit = self.number(self.accounting.memory.as_deref(), file).unwrap_or_default();
        Some(limit).filter(is_limit)
    }

    /// Hands over each `key value` of a file of the cgroup.
    pub(super) fn each(&mut self, mount: Option<&'a Path>, file: &str, take: impl FnMut((&str, u64))) {
        parse::flat(self.text(mount, file).unwrap_or_default()).for_each(take);
    }

    /// Where the controllers are.
    pub(super) fn accounting(&self) -> &'a Accounting {
        self.accounting
    }

    /// Mount point of procfs.
    pub(super) fn proc(&self) -> &'a Path {
        self.proc
    }

    fn load(&mut self, opened: &OwnedFd) -> Option<&str> {
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(filled.saturating_mul(2), 0);
            }
            let bytes = read(opened, self.buffer.get_mut(filled..)?).ok()?;
            filled = filled.saturating_add(bytes);
            if bytes < LESS_THAN_A_PAGE {
                return std::str::from_utf8(self.buffer.get(..filled)?).ok();
            }
        }
    }
}

/// Upstream considers what is beyond 4 EiB no limit, since v1 rounds its largest value.
fn is_limit(bytes: &u64) -> bool {
    *bytes <= 1 << 62
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

fn modified(stat: &Stat) -> Option<Timestamp> {
    Timestamp::new(stat.st_mtime, i32::try_from(stat.st_mtime_nsec).ok()?).ok()
}

//! The actual state of a volume on the host: its ready marker, its directory, and its files. Only reads, and never follows a
//! link that a container could have created. Plans need no other state, so a new daemon needs no memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::{Mount, MountTable, Mounts, real_path};

use super::error::HostError;
use super::kinds::registry::{device_directories, directories};
use super::layout::{DATA, PodLayout};
use super::model::KindDirectory;
use super::path_type::Found;

/// The filesystem type of volumes in memory.
const TMPFS: &str = "tmpfs";

/// The filesystem type of volumes in huge pages.
pub(super) const HUGETLBFS: &str = "hugetlbfs";

/// What is at a volume's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    Absent,
    Directory,
    Tmpfs,
    HugePages,
    /// A foreign mount.
    Foreign,
    NotADirectory,
}

/// An existing file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The content of a volume with files of the API server.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// The directory with the visible files.
    pub(super) version: Option<String>,
    /// The files in it; `None` if it contains anything else.
    pub(super) files: Option<BTreeMap<String, Present>>,
    /// The links to files by name, with their owners.
    pub(super) links: BTreeMap<String, u32>,
    /// Other entries.
    pub(super) strays: BTreeSet<OsString>,
}

/// The actual state of a volume.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Actual {
    /// Whether its setup was completed.
    pub(super) ready: bool,
    pub(super) root: Root,
    /// Its content, if it holds files of the API server.
    pub(super) tree: Tree,
}

/// What is left of a volume of a terminated pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    pub(super) name: String,
    /// Its directory, if it exists.
    pub(super) dir: Option<PathBuf>,
    /// The directory of its ready marker, if it exists.
    pub(super) meta: Option<PathBuf>,
    /// Whether its content outlives the pod and is only mounted there.
    pub(super) is_external: bool,
    /// How many mounts of the volume itself are on it.
    pub(super) mounts: usize,
    /// Whether there is a foreign mount on it or in it.
    pub(super) foreign: bool,
}

/// An I/O error with operation and path.
pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
    let path = path.to_owned();
    move |source| HostError::File { operation, path, source }
}

/// Reads the actual state of a volume.
pub(super) fn read_actual(
    root: &Path,
    meta: &Path,
    kind: KindDirectory,
    mounts: &MountTable,
) -> Result<Actual, HostError> {
    let found = root_of(root, mounts)?;
    let has_tree = kind.is_written_by_us() && matches!(found, Root::Directory | Root::Tmpfs);
    let tree = if has_tree { tree_of(root)? } else { Tree::default() };
    Ok(Actual { ready: meta.join("ready").exists(), root: found, tree })
}

fn root_of(root: &Path, mounts: &MountTable) -> Result<Root, HostError> {
    // The volume's path may be a link, which is not followed.
    let real = root.parent().map_or_else(PathBuf::new, real_path).join(root.file_name().unwrap_or_default());
    let mounted = match mounts.at(&real).last() {
        None => Root::Directory,
        Some(mount) if mount.filesystem == TMPFS => Root::Tmpfs,
        Some(mount) if mount.filesystem == HUGETLBFS => Root::HugePages,
        // Not looked at: a filesystem that a container mounted there may not respond.
        Some(_) => return Ok(Root::Foreign),
    };
    Ok(match if_there(root, "look at", fs::symlink_metadata(root))? {
        None => Root::Absent,
        Some(metadata) if metadata.is_dir() => mounted,
        Some(_) => Root::NotADirectory,
    })
}

fn tree_of(root: &Path) -> Result<Tree, HostError> {
    let mut tree = Tree { version: version(root), ..Tree::default() };
    for entry in entries(root)? {
        let name = entry.to_str().map(str::to_owned);
        match name {
            Some(name) if tree.version.as_ref() == Some(&name) => {
                tree.files = files_of(&root.join(&name))?;
            }
            Some(name) if name == DATA && is_link(&root.join(DATA)) => {}
            Some(name) if leads_to_data(root, &name) => {
                let path = root.join(&name);
                let metadata = fs::symlink_metadata(&path).map_err(failed("look at", &path))?;
                tree.links.insert(name, metadata.uid());
            }
            Some(_) | None => drop(tree.strays.insert(entry)),
        }
    }
    Ok(tree)
}

/// The directory that the data link points to, if it is in the volume.
fn version(root: &Path) -> Option<String> {
    let target = fs::read_link(root.join(DATA)).ok()?.into_os_string().into_string().ok()?;
    let is_ours = target.starts_with("..") && target.len() > 2 && !target.contains('/') && target != DATA;
    let is_dir = || fs::symlink_metadata(root.join(&target)).is_ok_and(|metadata| metadata.is_dir());
    (is_ours && is_dir()).then_some(target)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn leads_to_data(root: &Path, name: &str) -> bool {
    !name.starts_with("..")
        && fs::read_link(root.join(name)).is_ok_and(|target| target == Path::new(DATA).join(name))
}

/// The files below a directory; `None` if there is anything other than files and directories.
fn files_of(dir: &Path) -> Result<Option<BTreeMap<String, Present>>, HostError> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![String::new()];
    while let Some(inside) = waiting.pop() {
        for entry in entries(&dir.join(&inside))? {
            let Some(name) = entry.to_str() else { return Ok(None) };
            let relative = if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") };
            let path = dir.join(&relative);
            let metadata = fs::symlink_metadata(&path).map_err(failed("look at", &path))?;
            if metadata.is_dir() {
                waiting.push(relative);
            } else if metadata.is_file() {
                let data = fs::read(&path).map_err(failed("read", &path))?;
                let mode = metadata.mode() & 0o7777;
                files.insert(relative, Present { data, mode, uid: metadata.uid(), gid: metadata.gid() });
            } else {
                return Ok(None);
            }
        }
    }
    Ok(Some(files))
}

/// What is left of a pod's volumes: those with a directory, then markers without one.
pub(super) fn leftovers(layout: &PodLayout, mounts: &dyn Mounts) -> Result<Vec<Leftover>, HostError> {
    let mut metas: BTreeSet<PathBuf> =
        entries(&layout.metas())?.into_iter().map(|entry| layout.metas().join(entry)).collect();
    let mut volumes = Vec::new();
    for kind in directories().filter(|kind| !kind.is_of_drivers()) {
        volumes.extend(entries(&layout.volumes(kind))?.into_iter().map(|entry| (kind, entry)));
    }
    // The mount table of a host with many pods is long, and read only if needed.
    let mounts = if volumes.is_empty() { MountTable::default() } else { mounts.table()? };
    let mut found = Vec::new();
    for (kind, entry) in volumes {
        let name = entry.to_string_lossy().into_owned();
        // The volume's path may be a link, which is not followed.
        let real = real_path(&layout.volumes(kind)).join(&entry);
        let is_own =
            |mount: &&Mount| kind.is_external() || [TMPFS, HUGETLBFS].contains(&mount.filesystem.as_str());
        let own = mounts.at(&real).filter(is_own).count();
        let foreign = mounts.at(&real).count() > own || mounts.inside(&real).next().is_some();
        let meta = layout.meta(kind, &name);
        let meta = if kind.is_external() { Some(meta) } else { metas.take(&meta) };
        found.push(Leftover {
            name,
            dir: Some(layout.volumes(kind).join(&entry)),
            meta,
            is_external: kind.is_external(),
            mounts: own,
            foreign,
        });
    }
    found.extend(metas.into_iter().map(|meta| {
        let name = meta.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Leftover { name, dir: None, meta: Some(meta), is_external: false, mounts: 0, foreign: false }
    }));
    Ok(found)
}

/// The plugins of a pod's volumes that hostlet does not have, as the names of their directories. Another kubelet set these volumes up,
/// and nobody would take them down.
pub fn unknown_plugins(root: &Path, uid: &PodUid) -> Result<Vec<String>, HostError> {
    let Some(layout) = PodLayout::new(root, uid) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let volumes: BTreeSet<String> = directories().map(KindDirectory::name).collect();
    let devices = device_directories().map(KindDirectory::name).collect();
    for (plugins, known) in [(layout.dirs().volumes(), volumes), (layout.dirs().block_devices(), devices)] {
        for name in entries(&plugins)? {
            let is_known = name.to_str().is_some_and(|name| known.contains(name));
            if !is_known && !entries(&plugins.join(&name))?.is_empty() {
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// What is at a path of the host, following links.
pub(super) fn found_at(path: &Path) -> Result<Found, HostError> {
    let Some(metadata) = if_there(path, "look at", fs::metadata(path))? else { return Ok(Found::Nothing) };
    let is = metadata.file_type();
    Ok(if is.is_dir() {
        Found::Directory
    } else if is.is_file() {
        Found::File
    } else if is.is_socket() {
        Found::Socket
    } else if is.is_char_device() {
        Found::CharDevice
    } else if is.is_block_device() {
        Found::BlockDevice
    } else {
        Found::Other
    })
}

pub(super) fn entries(dir: &Path) -> Result<Vec<OsString>, HostError> {
    let Some(entries) = if_there(dir, "read", fs::read_dir(dir))? else { return Ok(Vec::new()) };
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed("read", dir))).collect()
}

fn if_there<T>(path: &Path, operation: &'static str, result: io::Result<T>) -> Result<Option<T>, HostError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(operation, path)(error)),
    }
}

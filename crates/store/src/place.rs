//! Opens the file and checks its ownership and mode. A file that another user could have written is not trusted, because it
//! decides which pods run. Blocks its thread.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use hostlet_host::sync_parent;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use redb::backends::FileBackend;

use super::error::FileError;
use super::file::StoreFile;

/// Maximum size in bytes, because the file is read into memory.
const SIZE_MOST: u64 = 256 * 1024 * 1024;

/// Opens the file. Creates it and its directory if missing.
pub(super) fn open(path: &Path) -> Result<(StoreFile, Identity), FileError> {
    if let Some(directory) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(FileError::io("make the directory of"))?;
    }
    match open_file(path) {
        Ok(file) => {
            let identity = check(&file)?;
            // An empty file is damaged, because files are created under another name. redb would take it for a new one.
            if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                return Err(FileError::Damaged("it is empty".to_owned()));
            }
            Ok((StoreFile::open(FileBackend::new(file)?)?, identity))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path),
        // A symbolic link or a directory is not the file that was written here.
        Err(error)
            if [Errno::ELOOP, Errno::EISDIR].map(|no| Some(no as i32)).contains(&error.raw_os_error()) =>
        {
            Err(FileError::Damaged(format!("it is not a regular file: {error}")))
        }
        Err(source) => Err(FileError::Io { operation: "open", source }),
    }
}

/// Whether `path` still refers to this file. Writes to a removed file would succeed and be lost.
pub(super) fn is_at(path: &Path, identity: Identity) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| Identity::of(&metadata) == identity)
}

/// Identifies a file independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Opens the file where nothing can be written.
pub(super) fn open_read_only(path: &Path) -> Result<StoreFile, FileError> {
    let file =
        OpenOptions::new().read(true).custom_flags(flags()).open(path).map_err(FileError::io("open"))?;
    check(&file)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, SIZE_MOST), &mut bytes).map_err(FileError::io("read"))?;
    StoreFile::of_bytes(&bytes)
}

/// Open options: do not follow links, do not block on a FIFO.
pub(super) fn flags() -> i32 {
    (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits()
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags()).open(path)
}

/// Checks that no other user could have written the file, and restricts it to its owner.
fn check(file: &File) -> Result<Identity, FileError> {
    let metadata = file.metadata().map_err(FileError::io("inspect"))?;
    let damaged = |what: String| Err(FileError::Damaged(what));
    if !metadata.is_file() {
        return damaged("it is not a regular file".to_owned());
    }
    if metadata.len() > SIZE_MOST {
        return damaged(format!("its {} bytes are more than a store has", metadata.len()));
    }
    let owner = metadata.uid();
    if owner != nix::unistd::geteuid().as_raw() {
        return damaged(format!("it belongs to user {owner}"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        return damaged(format!("others may write it (mode {mode:04o})"));
    }
    if mode & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(FileError::io("restrict the mode of"))?;
    }
    Ok(Identity::of(&metadata))
}

/// Creates the file under a temporary name, so that it is complete when it gets its own.
fn create(path: &Path) -> Result<(StoreFile, Identity), FileError> {
    let new = path.with_added_extension("new");
    match fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(FileError::Io { operation: "remove an old temporary file of", source }),
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(flags());
    let file = options.open(&new).map_err(FileError::io("create"))?;
    let identity = check(&file)?;
    let made = StoreFile::open(FileBackend::new(file)?)?;
    fs::rename(&new, path).map_err(FileError::io("rename the temporary file of"))?;
    // Otherwise a power cut could take the name, and with it all later rows.
    sync_parent(path).map_err(FileError::io("write the directory of"))?;
    Ok((made, identity))
}

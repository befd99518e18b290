//! The work of a rotation on files. Blocking. Each step leaves files that a reader and the next rotation understand, whenever the
//! daemon or the host stops.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use hostlet_host::{Links, open_regular};
use hostlet_observe::log::{RotatedForm, RotatedLog, at};
use jiff::civil::DateTime;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::error::RotationError;
use super::plan::plan;

/// Buffer of compressed text in bytes.
const BUFFER: usize = 64 * 1024;

/// The size of a log in bytes; `None` if there is none.
pub(super) fn size(log: &Path) -> Result<Option<u64>, RotationError> {
    match fs::metadata(log) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RotationError::Inspect { path: log.to_owned(), source }),
    }
}

/// Removes and compresses older files. Returns the new name of the log.
///
/// # Errors
/// A directory could not be listed, or a file not removed. A file that cannot be compressed, as on a full disk, is only returned:
/// without the rotation, the log would grow without a limit.
pub(super) fn prepare(
    log: &Path,
    max_files: usize,
    now: DateTime,
) -> Result<(PathBuf, Option<RotationError>), RotationError> {
    let (dir, name) = (log.parent().unwrap_or(log), log.file_name().and_then(|name| name.to_str()));
    let name = name.unwrap_or_default();
    let list = |dir: &Path| -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    };
    let names = list(dir).map_err(at(|path, source| RotationError::List { path, source }, dir))?;
    let plan = plan(name, &names, max_files, now);
    let path = |file: RotatedLog| dir.join(file.name(name));
    for file in plan.remove {
        let path = path(file);
        remove(&path).map_err(at(|path, source| RotationError::Remove { path, source }, &path))?;
    }
    let mut failure = None;
    for file in plan.compress {
        let of = |form| path(RotatedLog { form, ..file });
        let plain = of(RotatedForm::Plain);
        let compressed = compress(&plain, &of(RotatedForm::Unfinished), &of(RotatedForm::Compressed));
        if let Err(source) = compressed {
            // What could be written would only fill the disk.
            let _ = remove(&of(RotatedForm::Unfinished));
            failure = Some(RotationError::Compress { path: plain, source });
        }
    }
    Ok((path(plan.rotated), failure))
}

/// Renames a log, which must not replace another file.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), RotationError> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
        .map_err(io::Error::from)
        .map_err(at(|path, source| RotationError::Rename { path, source }, from))
}

/// Gives a log its name back, unless the runtime has opened a new one after all. Whether it got it back.
pub(super) fn undo(log: &Path, rotated: &Path) -> Result<bool, RotationError> {
    match renameat_with(CWD, rotated, CWD, log, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => Ok(false),
        Err(error) => Err(RotationError::Rename { path: rotated.to_owned(), source: error.into() }),
    }
}

/// Replaces a plain file by a compressed one, with the same mode and time. Neither reads nor writes through a link in their place.
fn compress(plain: &Path, unfinished: &Path, compressed: &Path) -> io::Result<()> {
    let mut source = open_regular(plain, Links::Rejected)?;
    let found = source.metadata()?;
    let mode = found.permissions().mode();
    remove(unfinished)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(unfinished)?;
    let mut encoder = GzEncoder::new(BufWriter::with_capacity(BUFFER, file), Compression::default());
    io::copy(&mut source, &mut encoder)?;
    let file = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.set_modified(found.modified()?)?;
    // Otherwise a power cut could leave neither file.
    file.sync_all()?;
    fs::rename(unfinished, compressed)?;
    match fs::remove_file(plain) {
        // The logs of the container were removed meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => remove(compressed),
        removed => removed,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

//! The key of this host: a credential that the service manager passes, else a file that is made on first use. A file that others could
//! have written is set aside. Blocks its thread.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hostlet_host::{replace_file, sync_parent};
use nix::errno::Errno;

use super::super::place::flags;
use super::cipher::{Cipher, KEY_BYTES, random_key};

/// The name of the credential (systemd.exec(5), `LoadCredentialEncrypted=`).
pub const KEY_CREDENTIAL: &str = "hostlet.objects-key";

/// The mode of the file.
const MODE: u32 = 0o600;

/// Where the key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlace {
    /// The directory of the credentials that the service manager passes (`$CREDENTIALS_DIRECTORY`), if it passes any.
    pub credentials: Option<PathBuf>,
    /// The file that has the key if no credential has it.
    pub file: PathBuf,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The credential or the file cannot be read.
    #[error("cannot read the key {}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The credential has another length.
    #[error("the key {} has {bytes} bytes, not {KEY_BYTES}", path.display())]
    Length {
        /// Its path.
        path: PathBuf,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The kernel gives no random bytes.
    #[error("cannot make the key {}: the kernel gives no random bytes", path.display())]
    Random {
        /// Its path.
        path: PathBuf,
    },
    /// The file cannot be set aside or written.
    #[error("cannot write the key {}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The keys of this host.
#[derive(Debug)]
pub(super) struct HostKeys {
    /// Seals and opens.
    pub(super) current: Cipher,
    /// The key of the file, if a credential has replaced it: opens what it has sealed.
    pub(super) former: Option<Cipher>,
}

impl HostKeys {
    /// Reads the keys. A missing file is made, if there is no credential.
    pub(super) fn open(place: &KeyPlace) -> Result<Self, KeyError> {
        let path = &place.file;
        if let Some(current) = credential(place)? {
            // The file is of use only until its rows are sealed with the credential.
            let former = read_file(path).ok().and_then(Result::ok).and_then(|key| Cipher::new(&key));
            return Ok(Self { current, former });
        }
        let read = read_file(path).map_err(|source| KeyError::Read { path: path.clone(), source })?;
        let current = match read {
            Ok(key) => Cipher::new(&key),
            Err(Unusable::Missing) => None,
            Err(Unusable::Untrusted(why)) => {
                set_aside(path, &why).map_err(|source| KeyError::Write { path: path.clone(), source })?;
                None
            }
        };
        let current = match current {
            Some(current) => current,
            None => make_file(path)?,
        };
        Ok(Self { current, former: None })
    }
}

/// Removes the key's file, if there is one.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The key in the credential; `None` if the service manager passes none.
fn credential(place: &KeyPlace) -> Result<Option<Cipher>, KeyError> {
    let Some(directory) = &place.credentials else { return Ok(None) };
    let path = directory.join(KEY_CREDENTIAL);
    let key = match fs::read(&path) {
        Ok(key) => key,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(KeyError::Read { path, source }),
    };
    let cipher = Cipher::new(&key).ok_or(KeyError::Length { path, bytes: key.len() })?;
    Ok(Some(cipher))
}

/// Why a file has no key.
enum Unusable {
    /// There is no file.
    Missing,
    /// Somebody else could have written it, or it is no key.
    Untrusted(String),
}

/// The key in the file, which is restricted to its owner.
fn read_file(path: &Path) -> io::Result<Result<Vec<u8>, Unusable>> {
    let file = match OpenOptions::new().read(true).custom_flags(flags()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Unusable::Missing)),
        Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
            return Ok(Err(Unusable::Untrusted("it is a symbolic link".to_owned())));
        }
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if let Some(why) = untrusted(&metadata) {
        return Ok(Err(Unusable::Untrusted(why)));
    }
    restrict(&file, &metadata)?;
    let mut key = Vec::with_capacity(KEY_BYTES);
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut key)?;
    Ok(Ok(key))
}

/// Why a file cannot be trusted, if it cannot.
fn untrusted(metadata: &Metadata) -> Option<String> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if !metadata.is_file() {
        Some("it is not a regular file".to_owned())
    } else if owner != nix::unistd::geteuid().as_raw() {
        Some(format!("it belongs to user {owner}"))
    } else if mode & 0o022 != 0 {
        Some(format!("others may write it (mode {mode:04o})"))
    } else if metadata.len() != KEY_BYTES as u64 {
        Some(format!("it has {} bytes, not {KEY_BYTES}", metadata.len()))
    } else {
        None
    }
}

fn restrict(file: &File, metadata: &Metadata) -> io::Result<()> {
    match metadata.mode() & 0o077 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(MODE)),
    }
}

/// Renames an untrusted file, in place of an earlier one.
fn set_aside(path: &Path, why: &str) -> io::Result<()> {
    let aside = path.with_added_extension("aside");
    fs::rename(path, &aside)?;
    let (path, aside) = (path.display(), aside.display());
    tracing::error!(%path, %aside, why, "the key was unusable and was set aside; a new one is made");
    Ok(())
}

fn make_file(path: &Path) -> Result<Cipher, KeyError> {
    let unwritable = |source| KeyError::Write { path: path.to_owned(), source };
    let key = random_key().map_err(|_| KeyError::Random { path: path.to_owned() })?;
    replace_file(path, &key, MODE).map_err(unwritable)?;
    Cipher::new(&key).ok_or_else(|| KeyError::Length { path: path.to_owned(), bytes: key.len() })
}

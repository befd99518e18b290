//! The record that hostlet has run pods from this root directory on a runtime. It survives the loss of the store, and a damaged
//! one still proves that hostlet ran here. Blocks its thread.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use hostlet_base::json;
use hostlet_host::{SysError, real_path, replace_file};

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The runtimes on which pods ran.
    runtimes: Vec<ClaimedRuntime>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimedRuntime {
    /// Its socket, without links (`/var/run` is `/run` on most hosts).
    socket: PathBuf,
    /// The first start on it.
    since: Timestamp,
}

/// What is known of earlier starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownClaim {
    /// There is no record.
    Missing,
    /// An earlier daemon recorded on which runtime and host it ran.
    Read(Claim),
    /// There is a record that cannot be read: hostlet ran here, but on which runtime is unknown.
    Unreadable {
        /// Why.
        error: String,
    },
}

impl KnownClaim {
    /// Reads the record at `path`.
    pub fn read(path: &Path) -> Self {
        let unreadable = |error: &dyn std::error::Error| Self::Unreadable { error: error.to_string() };
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Missing,
            Err(error) => unreadable(&error),
            Ok(bytes) => match json::from_slice(&bytes) {
                Ok(claim) => Self::Read(claim),
                Err(error) => unreadable(&error),
            },
        }
    }

    /// Whether hostlet ran on the runtime at `socket`. An unreadable record counts for every runtime.
    pub fn names(&self, socket: &Path) -> bool {
        match self {
            Self::Missing => false,
            Self::Read(claim) => claim.names(socket),
            Self::Unreadable { .. } => true,
        }
    }

    /// The sockets of the runtimes on which hostlet is known to have run.
    pub fn sockets(&self) -> Vec<&Path> {
        match self {
            Self::Read(claim) => claim.runtimes.iter().map(|runtime| &*runtime.socket).collect(),
            Self::Missing | Self::Unreadable { .. } => Vec::new(),
        }
    }

    /// The record with this runtime; `None` if it has it.
    pub fn with(&self, socket: &Path, now: Timestamp) -> Option<Claim> {
        let mut claim = match self {
            Self::Read(claim) if claim.names(socket) => return None,
            Self::Read(claim) => claim.clone(),
            Self::Missing | Self::Unreadable { .. } => Claim::default(),
        };
        claim.runtimes.push(ClaimedRuntime { socket: real_socket(socket), since: now });
        Some(claim)
    }
}

impl Claim {
    fn names(&self, socket: &Path) -> bool {
        let socket = real_socket(socket);
        self.runtimes.iter().any(|runtime| runtime.socket == socket)
    }

    /// Writes the record.
    pub fn write(&self, path: &Path) -> Result<(), SysError> {
        // Plain data, which always converts to JSON, unless a path is not UTF-8.
        let text = serde_json::to_string_pretty(self);
        let failed = |source| SysError::ReplaceFile { path: path.to_owned(), source };
        let text = text.map_err(|error| failed(error.into()))?;
        replace_file(path, format!("{text}\n").as_bytes(), 0o600).map_err(failed)
    }
}

/// The socket's path without links in its directory; also while the runtime, and so the socket, is away.
fn real_socket(socket: &Path) -> PathBuf {
    match (socket.parent(), socket.file_name()) {
        (Some(dir), Some(name)) => real_path(dir).join(name),
        _ => socket.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_runtime_is_claimed_once_by_any_path_to_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("run")).unwrap();
        symlink("run", at("var-run")).unwrap();
        let (file, now) = (at("claim.json"), Timestamp::UNIX_EPOCH);
        assert_eq!(KnownClaim::read(&file), KnownClaim::Missing);
        assert!(!KnownClaim::Missing.names(&at("run/a.sock")));

        KnownClaim::Missing.with(&at("var-run/a.sock"), now).unwrap().write(&file).unwrap();
        let known = KnownClaim::read(&file);
        assert!(known.names(&at("run/a.sock")) && known.names(&at("var-run/a.sock")));
        assert!(!known.names(&at("run/b.sock")));
        assert_eq!(known.with(&at("run/a.sock"), now), None);
        known.with(&at("run/b.sock"), now).unwrap().write(&file).unwrap();
        let known = KnownClaim::read(&file);
        assert!(known.names(&at("run/a.sock")) && known.names(&at("run/b.sock")));
        assert_eq!(known.sockets(), [at("run/a.sock"), at("run/b.sock")].map(|path| real_socket(&path)));
    }

    #[test]
    fn a_damaged_record_still_proves_that_hostlet_ran_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("claim.json");
        for damage in ["", "{", "[]", "\0\0"] {
            fs::write(&file, damage).unwrap();
            let known = KnownClaim::read(&file);
            assert!(matches!(known, KnownClaim::Unreadable { .. }), "{damage:?}");
            assert!(known.names(Path::new("/run/any.sock")));
            known.with(Path::new("/run/any.sock"), Timestamp::UNIX_EPOCH).unwrap().write(&file).unwrap();
            assert!(matches!(KnownClaim::read(&file), KnownClaim::Read(_)));
        }
    }
}

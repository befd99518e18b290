//! The file of claims, `dra_manager_state` in the daemon's directory: read once, replaced as a whole. Knows no format.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::error_chain;
use hostlet_host::{file_work, replace_file};
use tokio::task::JoinError;

use crate::ledger::{CheckpointError, Ledger, decode, encode};

/// Upstream's name.
/// The name of the file of claims, below the root directory.
pub const CLAIMS_FILE: &str = "dra_manager_state";

/// What a damaged file is renamed to.
const DAMAGED: &str = "dra_manager_state.damaged";

const MODE: u32 = 0o600;

/// Why the file is not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("cannot encode the claims")]
    Encode(#[source] serde_json::Error),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("writing the claims panicked")]
    Panicked(#[source] JoinError),
}

/// A claim that a daemon recorded as prepared, or as being prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedClaim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The drivers that its devices are of.
    pub drivers: Vec<String>,
}

/// Why it is not known what a daemon recorded.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct UnreadableClaims {
    path: PathBuf,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// The claims that a daemon with this directory recorded, for who comes after it. Changes nothing. Blocks its thread.
///
/// # Errors
/// There is a file that cannot be read.
pub fn recorded_claims(root: &Path) -> Result<Vec<RecordedClaim>, UnreadableClaims> {
    let path = root.join(CLAIMS_FILE);
    let content = match fs::read(&path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(UnreadableClaims { path, source: error.into() }),
    };
    // In which boot they were prepared does not matter.
    let ledger = decode(&content, "").map_err(|error| UnreadableClaims { path, source: error.into() })?;
    let claims = ledger.claims().iter().map(|((namespace, name), claim)| RecordedClaim {
        namespace: namespace.clone(),
        name: name.clone(),
        drivers: claim.parts.keys().cloned().collect(),
    });
    Ok(claims.collect())
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct ClaimsFile {
    root: PathBuf,
    boot: String,
}

impl ClaimsFile {
    /// That of the daemon's directory `root`, in this boot of the host.
    pub(crate) fn new(root: &Path, boot: &str) -> Self {
        Self { root: root.to_owned(), boot: boot.to_owned() }
    }

    /// The claims of earlier daemons. A damaged file is set aside: the claims of pods that run are prepared again, and so are known again.
    /// Blocks its thread.
    pub(crate) fn read(&self) -> Ledger {
        let path = self.root.join(CLAIMS_FILE);
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ledger::default(),
            Err(error) => return self.set_aside(&error),
        };
        decode(&content, &self.boot).unwrap_or_else(|error: CheckpointError| self.set_aside(&error))
    }

    fn set_aside(&self, error: &dyn std::error::Error) -> Ledger {
        let (path, aside) = (self.root.join(CLAIMS_FILE), self.root.join(DAMAGED));
        let moved = fs::rename(&path, &aside);
        tracing::error!(
            file = %path.display(),
            aside = %aside.display(),
            error = error_chain(error),
            moved = moved.is_ok(),
            "the record of prepared claims cannot be read and is set aside; claims of pods that have ended may stay prepared"
        );
        Ledger::default()
    }

    /// Replaces the file. Survives a power cut once it returns.
    pub(crate) async fn write(&self, ledger: &Ledger) -> Result<(), RecordError> {
        let content = encode(ledger, &self.boot).map_err(RecordError::Encode)?;
        let path = self.root.join(CLAIMS_FILE);
        let named = path.clone();
        let written = file_work(move || replace_file(&path, content.as_bytes(), MODE)).await;
        written.map_err(RecordError::Panicked)?.map_err(|source| RecordError::Write { path: named, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_damaged_file_is_set_aside_and_a_new_one_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = ClaimsFile::new(dir.path(), "boot");
        assert_eq!(file.read(), Ledger::default());
        fs::write(dir.path().join(CLAIMS_FILE), "{").unwrap();
        assert_eq!(file.read(), Ledger::default());
        assert_eq!(fs::read(dir.path().join(DAMAGED)).unwrap(), b"{");
        assert!(recorded_claims(dir.path()).unwrap().is_empty());
        file.write(&Ledger::default()).await.unwrap();
        assert_eq!(file.read(), Ledger::default());
        fs::write(dir.path().join(CLAIMS_FILE), "{").unwrap();
        let error = recorded_claims(dir.path()).unwrap_err();
        assert!(error_chain(&error).contains("dra_manager_state: it is not the JSON"), "{error}");
        assert!(dir.path().join(CLAIMS_FILE).exists(), "nothing is changed");
        let error = ClaimsFile::new(&dir.path().join("none"), "boot").write(&Ledger::default()).await;
        assert!(error_chain(&error.unwrap_err()).contains("none/dra_manager_state: No such file"));
    }
}

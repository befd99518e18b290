//! The files of CPUs and memory that containers have for themselves, in upstream's form. Knows no policy.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use hostlet_base::error_chain;
use hostlet_host::{file_work, replace_file};
use hostlet_resources::{
    CpuCheckpoint, CpuCheckpointError, Managers, MemoryCheckpoint, MemoryCheckpointError,
};
use tokio::task::JoinError;

/// Upstream's file of the CPUs.
const CPU_FILE: &str = "cpu_manager_state";
/// Upstream's file of the memory.
const MEMORY_FILE: &str = "memory_manager_state";
/// Mode of both, as upstream writes them.
const MODE: u32 = 0o600;
/// The policies' names in the file of the CPUs: with one, without.
const CPU_POLICIES: [&str; 2] = ["static", "none"];
/// The same in the file of the memory.
const MEMORY_POLICIES: [&str; 2] = ["Static", "None"];

/// Why what was granted is not recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NumaRecordError {
    /// The CPUs cannot be written as a file.
    #[error("cannot encode {CPU_FILE}")]
    Cpus(#[from] CpuCheckpointError),
    /// The memory cannot be written as a file.
    #[error("cannot encode {MEMORY_FILE}")]
    Memory(#[from] MemoryCheckpointError),
    /// A file could not be replaced.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The work on the files panicked.
    #[error("the work on {CPU_FILE} and {MEMORY_FILE} failed")]
    Work(#[from] JoinError),
}

/// The files.
#[derive(Clone, Debug)]
pub(super) struct NumaFiles {
    dir: PathBuf,
}

impl NumaFiles {
    /// Those in the daemon's directory.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// What an earlier kubelet wrote: of the CPUs, and of the memory. Whatever cannot be read is logged.
    pub(super) async fn read(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let dir = self.dir.clone();
        match file_work(move || (read(&dir.join(CPU_FILE)), read(&dir.join(MEMORY_FILE)))).await {
            Ok(files) => files,
            Err(error) => {
                tracing::error!(
                    error = error_chain(&error),
                    "cannot read what containers have for themselves"
                );
                (None, None)
            }
        }
    }

    /// Records what containers have.
    pub(super) fn write(
        &self,
        managers: &Managers,
    ) -> impl Future<Output = Result<(), NumaRecordError>> + use<> {
        let dir = self.dir.clone();
        let content = || -> Result<_, NumaRecordError> {
            Ok((cpu_checkpoint(managers).encode()?, memory_checkpoint(managers).encode()?))
        };
        let content = content();
        async move {
            let (cpus, memory) = content?;
            let written = file_work(move || {
                write(&dir.join(CPU_FILE), &cpus)?;
                write(&dir.join(MEMORY_FILE), &memory)
            });
            written.await?
        }
    }
}

fn cpu_checkpoint(managers: &Managers) -> CpuCheckpoint {
    let [fixed, none] = CPU_POLICIES.map(str::to_owned);
    match &managers.cpus {
        Some(cpus) => CpuCheckpoint { policy: fixed, state: cpus.state().clone() },
        None => CpuCheckpoint { policy: none, ..CpuCheckpoint::default() },
    }
}

fn memory_checkpoint(managers: &Managers) -> MemoryCheckpoint {
    let [fixed, none] = MEMORY_POLICIES.map(str::to_owned);
    match &managers.memory {
        Some(memory) => MemoryCheckpoint { policy: fixed, state: memory.state().clone() },
        None => MemoryCheckpoint { policy: none, ..MemoryCheckpoint::default() },
    }
}

/// The content of a file; `None` without one. Blocks its thread.
fn read(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            tracing::error!(path = %path.display(), error = error_chain(&error), "cannot read what containers have for themselves");
            None
        }
    }
}

/// Replaces a file with another content. Blocks its thread.
fn write(path: &Path, content: &str) -> Result<(), NumaRecordError> {
    if fs::read(path).is_ok_and(|before| before == content.as_bytes()) {
        return Ok(());
    }
    let path = path.to_owned();
    replace_file(&path, content.as_bytes(), MODE).map_err(|source| NumaRecordError::Write { path, source })
}

//! The Docker configuration of the host, where the stock kubelet looks for it: the root directory, the working directory, the home
//! directory and `/`. Read at each pull, so that a change applies at once.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use hostlet_base::error_chain;

use super::{DockerConfig, DockerConfigError};

/// Longest file that is read, bytes: as long as a Secret.
const MAX_SIZE: u64 = 1 << 20;

/// The files, in the order of their precedence.
#[derive(Clone, Debug, Default)]
pub struct DockerConfigFiles {
    config_json: Vec<PathBuf>,
    dockercfg: Vec<PathBuf>,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("cannot read it")]
    Read(#[source] std::io::Error),
    #[error("it is larger than {MAX_SIZE} bytes")]
    TooLarge,
    #[error(transparent)]
    Invalid(#[from] DockerConfigError),
}

impl DockerConfigFiles {
    /// The files of a daemon with this root directory, working directory and home directory, in the file system at `top`.
    pub fn new(root_dir: &Path, working_dir: &Path, home: Option<&Path>, top: &Path) -> Self {
        let beside = [Some(root_dir), Some(working_dir)];
        let homes = [home, Some(top)];
        let config_json = beside.into_iter().flatten().map(|dir| dir.join("config.json"));
        let in_homes = homes.into_iter().flatten().map(|dir| dir.join(".docker/config.json"));
        let dockercfg = beside.into_iter().chain(homes).flatten().map(|dir| dir.join(".dockercfg"));
        Self { config_json: config_json.chain(in_homes).collect(), dockercfg: dockercfg.collect() }
    }

    /// The first valid file, or nothing. Blocks on the disk.
    pub(super) fn read(&self) -> DockerConfig {
        let json =
            self.config_json.iter().map(|path| (path, DockerConfig::from_config_json as fn(&[u8]) -> _));
        let older = self.dockercfg.iter().map(|path| (path, DockerConfig::from_dockercfg as fn(&[u8]) -> _));
        let mut found = json.chain(older).filter_map(|(path, parse)| match read(path, parse) {
            Ok(config) => config,
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, error = error_chain(&error), "cannot use the file of registry credentials");
                None
            }
        });
        found.next().unwrap_or_default()
    }
}

/// Reads a file; `None` if there is none.
fn read(
    path: &Path,
    parse: fn(&[u8]) -> Result<DockerConfig, DockerConfigError>,
) -> Result<Option<DockerConfig>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(FileError::Read(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(FileError::Read)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(FileError::TooLarge);
    }
    Ok(Some(parse(&bytes)?))
}

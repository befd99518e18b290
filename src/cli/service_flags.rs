//! The flags of the packaged service, from the files that its unit reads: what commands that work without the daemon assume.
//! Runs nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::command::Cli;
use crate::config::{KubeletFlags, with_plain_names};

/// The configuration of the packages.
const CONFIG: &str = "etc/hostlet/config.yaml";
/// The files that the unit reads, in its order.
const ENVIRONMENT: [&str; 2] = ["etc/default/hostlet", "etc/sysconfig/hostlet"];
/// The variable with the flags.
const FLAGS: &str = "HOSTLET_FLAGS";

/// The service's flags cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum ServiceFlagsError {
    /// A file cannot be read.
    #[error("cannot read the flags of the service in {}; --config names a configuration without them", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A quote is not closed.
    #[error("{}: {FLAGS} has a quote that is not closed", path.display())]
    Quote {
        /// The file.
        path: PathBuf,
    },
    /// The daemon would not accept them.
    #[error("{}: {FLAGS} is not what hostlet accepts", path.display())]
    Flags {
        /// The file.
        path: PathBuf,
        /// The error.
        source: clap::Error,
    },
}

/// The flags of the service on the host below `root`; without the package, those of a daemon without any.
pub(super) fn service_flags(root: &Path) -> Result<KubeletFlags, ServiceFlagsError> {
    let mut words = Vec::new();
    let mut file = root.join(ENVIRONMENT[0]);
    for name in ENVIRONMENT {
        let path = root.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => {
                if let Some(found) = flags_in(&text) {
                    words = found.ok_or_else(|| ServiceFlagsError::Quote { path: path.clone() })?;
                    file = path;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ServiceFlagsError::Read { path, source }),
        }
    }
    let arguments = std::iter::once("hostlet".to_owned()).chain(words).map(Into::into);
    let mut flags = match Cli::try_parse_from(with_plain_names(arguments)) {
        Ok(cli) => cli.flags,
        Err(source) => return Err(ServiceFlagsError::Flags { path: file, source }),
    };
    let config = root.join(CONFIG);
    flags.process.config = flags.process.config.or_else(|| config.exists().then_some(config));
    Ok(flags)
}

/// The words of the flags in an environment file (systemd.exec(5), `EnvironmentFile=`): `None` if it does not set them, and
/// `Some(None)` if a quote is not closed. The last assignment applies.
fn flags_in(text: &str) -> Option<Option<Vec<String>>> {
    let mut values = text.lines().filter_map(|line| line.trim_start().strip_prefix(FLAGS)?.strip_prefix('='));
    // The quotes of the file, then those within the value.
    values.next_back().map(|value| shlex::split(&shlex::split(value)?.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with this file of the deb, and this one of the rpm.
    fn host(deb: &str, rpm: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::TempDir::new().unwrap();
        for dir in ["etc/default", "etc/sysconfig", "etc/hostlet"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::write(root.path().join(ENVIRONMENT[0]), deb).unwrap();
        if let Some(rpm) = rpm {
            fs::write(root.path().join(ENVIRONMENT[1]), rpm).unwrap();
        }
        fs::write(root.path().join(CONFIG), "").unwrap();
        root
    }

    #[test]
    fn the_flags_are_those_that_the_unit_passes() {
        let deb = "# comment\n#HOSTLET_FLAGS=\"-v 4\"\nHOSTLET_FLAGS=\"--kubeconfig /etc/k.conf --root_dir '/data/a b'\"\n";
        let root = host(deb, None);
        let flags = service_flags(root.path()).unwrap().process;
        assert_eq!(flags.kubeconfig.as_deref(), Some(Path::new("/etc/k.conf")));
        assert_eq!(flags.root_dir, Path::new("/data/a b"));
        assert_eq!(flags.config, Some(root.path().join(CONFIG)));
        let root = host(deb, Some("HOSTLET_FLAGS=--config /other.yaml\n"));
        let flags = service_flags(root.path()).unwrap().process;
        assert_eq!((flags.kubeconfig, flags.config.as_deref()), (None, Some(Path::new("/other.yaml"))));
    }

    #[test]
    fn a_host_without_the_package_has_no_flags() {
        let root = tempfile::TempDir::new().unwrap();
        assert_eq!(service_flags(root.path()).unwrap().process.config, None);
    }

    #[test]
    fn flags_that_the_daemon_would_not_accept_are_named_with_their_file() {
        for (text, expected) in [
            ("HOSTLET_FLAGS=\"--no-such\"", "is not what hostlet accepts"),
            ("HOSTLET_FLAGS=\"-v 4", "not closed"),
        ] {
            let error = service_flags(host(text, None).path()).unwrap_err().to_string();
            assert!(
                error.contains("etc/default/hostlet: HOSTLET_FLAGS") && error.contains(expected),
                "{error}"
            );
        }
    }
}

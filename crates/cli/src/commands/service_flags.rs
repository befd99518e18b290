//! The flags of the packaged service, as its unit passes them: what commands that work without the daemon assume. Runs nothing.

use std::path::{Path, PathBuf};

use clap::Parser;

use hostlet_config::{KubeletFlags, is_called_kubelet, with_plain_names};
use hostlet_host::{DaemonUnit, DaemonUnitError};

/// The configuration of the packages, for a host without their unit.
const CONFIG: &str = "etc/hostlet/config.yaml";

/// The command line of the daemon.
#[derive(Parser)]
#[command(name = "hostlet", disable_version_flag = true)]
struct DaemonCommand {
    #[command(flatten)]
    flags: KubeletFlags,
}

/// The service's flags cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum ServiceFlagsError {
    /// Its unit, or a file that it names, is unreadable.
    #[error("the flags of {unit} are unknown; --config names a configuration without them")]
    Unit {
        /// The unit.
        unit: &'static str,
        /// The error.
        source: DaemonUnitError,
    },
    /// The daemon would not accept them.
    #[error("the flags of {unit} are not what hostlet accepts: {flags}")]
    Flags {
        /// The unit.
        unit: &'static str,
        /// The flags.
        flags: String,
        /// The error.
        source: clap::Error,
    },
}

/// The flags of the service on the host below `root`; without its unit, those of a daemon without any.
pub(super) fn service_flags(root: &Path) -> Result<KubeletFlags, ServiceFlagsError> {
    let unit = DaemonUnit::of(root);
    let command = unit.command(root);
    let command = command.map_err(|source| ServiceFlagsError::Unit { unit: unit.name(), source })?;
    let Some(words) = command else {
        let mut flags = KubeletFlags::default();
        flags.process.config = Some(root.join(CONFIG)).filter(|config: &PathBuf| config.exists());
        return Ok(flags);
    };
    let flags = words.get(1..).unwrap_or_default().join(" ");
    let is_called_kubelet = is_called_kubelet(words.first().map(AsRef::as_ref));
    match DaemonCommand::try_parse_from(with_plain_names(words.into_iter().map(Into::into))) {
        Ok(daemon) => Ok(KubeletFlags { is_called_kubelet, ..daemon.flags }),
        Err(source) => Err(ServiceFlagsError::Flags { unit: unit.name(), flags, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A host with the packages, with these flags in the deb's file.
    fn host(flags: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let unit = include_str!("../../../../systemd/hostlet.service");
        for (path, text) in
            [("usr/lib/systemd/system/hostlet.service", unit), ("etc/default/hostlet", flags), (CONFIG, "")]
        {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_flags_are_those_that_the_unit_passes() {
        let root = host("HOSTLET_FLAGS=\"--kubeconfig /etc/k.conf --root_dir '/data/a b'\"\n");
        let flags = service_flags(root.path()).unwrap().process;
        assert_eq!(flags.kubeconfig.as_deref(), Some(Path::new("/etc/k.conf")));
        assert_eq!(flags.root_dir, Path::new("/data/a b"));
        assert_eq!(flags.config.as_deref(), Some(Path::new("/etc/hostlet/config.yaml")));
    }

    #[test]
    fn a_host_without_the_unit_has_only_its_configuration() {
        let root = tempfile::tempdir().unwrap();
        let config = || service_flags(root.path()).unwrap().process.config;
        assert_eq!(config(), None);
        fs::create_dir_all(root.path().join("etc/hostlet")).unwrap();
        fs::write(root.path().join(CONFIG), "").unwrap();
        assert_eq!(config(), Some(root.path().join(CONFIG)));
    }

    #[test]
    fn flags_that_the_daemon_would_not_accept_are_named_with_their_unit() {
        let error = |flags| hostlet_base::error_chain(&service_flags(host(flags).path()).unwrap_err());
        let unknown = error("HOSTLET_FLAGS=\"--no-such\"");
        assert!(unknown.contains("hostlet.service") && unknown.contains("--no-such"), "{unknown}");
        let open = error("HOSTLET_FLAGS=\"-v 4");
        assert!(open.contains("etc/default/hostlet: HOSTLET_FLAGS has a quote"), "{open}");
    }
}

//! NFS volumes, directly in a pod or behind a claim. Pure.

use std::path::PathBuf;

use hostlet_base::causes::{Group, Rule, rule};
use k8s_openapi::api::core::v1::{NFSVolumeSource, Volume};

use super::kind::Kind;
use crate::model::{Context, DesiredVolume, External, KindDirectory, Persistent, Provider};

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/nfs", provider: Provider::Server { filesystem: "nfs" } };

/// Causes why an NFS volume cannot be mounted.
const RULES: &[Rule] = &[
    rule(
        &["mounting arguments: -t nfs", "helper program"],
        "this host lacks the program that mounts NFS",
        "install it (nfs-common on Debian and Ubuntu, nfs-utils elsewhere); hostlet retries automatically",
    ),
    rule(
        &["mounting arguments: -t nfs", "unknown filesystem type"],
        "the kernel of this host has no NFS client",
        "load its module (modprobe nfs); hostlet retries automatically",
    ),
    rule(
        &["mounting arguments: -t nfs", "access denied"],
        "the NFS server does not export the directory to this host",
        "correct the exports of the server, or server and path of the volume; hostlet retries automatically",
    ),
    rule(
        &["mounting arguments: -t nfs"],
        "the NFS server or its directory cannot be mounted",
        "try it by hand (mount -t nfs SERVER:PATH /mnt), or correct server, path and mount options of the volume; hostlet \
         retries automatically",
    ),
];

/// The kind of NFS volumes. A server decides on the owners of its files: no group is set.
pub(super) struct Nfs;

impl Kind for Nfs {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.nfs.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn desired(&self, volume: &Volume, _context: &Context<'_>) -> Option<DesiredVolume> {
        let nfs = volume.nfs.as_ref()?;
        let (source, unit) = of_server(nfs);
        Some(DesiredVolume::External(External {
            directory: DIRECTORY,
            name: volume.name.clone(),
            source,
            unit,
            options: Vec::new(),
            read_only: nfs.read_only.unwrap_or(false),
            group: None,
            is_exclusive: false,
            fs_type: String::new(),
            claim: None,
        }))
    }

    fn desired_persistent(&self, volume: &Persistent<'_>, _context: &Context<'_>) -> Option<DesiredVolume> {
        let (source, unit) = of_server(volume.spec.nfs.as_ref()?);
        Some(DesiredVolume::External(External {
            directory: DIRECTORY,
            name: volume.name.to_owned(),
            source,
            unit,
            options: volume.options.clone(),
            read_only: volume.read_only,
            group: None,
            is_exclusive: volume.is_exclusive(),
            fs_type: String::new(),
            claim: None,
        }))
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

/// What is mounted, and the server with which it blocks.
fn of_server(source: &NFSVolumeSource) -> (String, PathBuf) {
    let is_ipv6 = source.server.parse::<std::net::Ipv6Addr>().is_ok();
    let server = if is_ipv6 { format!("[{}]", source.server) } else { source.server.clone() };
    (format!("{server}:{}", source.path), source.server.clone().into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::testing::Pod;

    fn of(source: Value) -> External {
        let pod = Pod::new(json!({"securityContext": {"fsGroup": 3000}}));
        match pod.desired_volume(json!({"nfs": source})) {
            DesiredVolume::External(external) => external,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_volume_of_a_pod_has_its_server_and_no_group() {
        let nfs = of(json!({"server": "nfs.example.com", "path": "/export", "readOnly": true}));
        assert_eq!((nfs.name.as_str(), nfs.source.as_str()), ("v", "nfs.example.com:/export"));
        assert_eq!(
            (nfs.unit.as_path(), nfs.read_only, nfs.group),
            (Path::new("nfs.example.com"), true, None)
        );
        let nfs = of(json!({"server": "fd00::1", "path": "/"}));
        assert_eq!((nfs.source.as_str(), nfs.read_only), ("[fd00::1]:/", false));
    }
}

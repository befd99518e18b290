//! NFS volumes, directly in a pod or behind a claim. Pure.

use k8s_openapi::api::core::v1::NFSVolumeSource;

use crate::external::External;
use crate::layout::Kind;

/// The volume `name` of a pod.
pub(crate) fn of_pod(name: &str, source: &NFSVolumeSource) -> External {
    let external = External {
        kind: Kind::Nfs,
        name: name.to_owned(),
        source: String::new(),
        unit: Default::default(),
        options: Vec::new(),
        read_only: source.read_only.unwrap_or(false),
        group: None,
        is_exclusive: false,
    };
    self::external(external, source)
}

/// The volume with its server. A server decides on the owners of its files: no group is set.
pub(super) fn external(external: External, source: &NFSVolumeSource) -> External {
    let is_ipv6 = source.server.parse::<std::net::Ipv6Addr>().is_ok();
    let server = if is_ipv6 { format!("[{}]", source.server) } else { source.server.clone() };
    External {
        kind: Kind::Nfs,
        source: format!("{server}:{}", source.path),
        unit: source.server.clone().into(),
        ..external
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::desired::DesiredVolume;
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

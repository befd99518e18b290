//! Ranges on disk, and in the runtime's configurations.

use std::fs;
use std::path::Path;

use hostlet_base::PodUid;
use hostlet_runtime::cri::wire::{ContainerConfig, IdMapping, Mount, NamespaceMode, PodSandboxConfig};
use serde_json::json;

use super::*;

fn namespaces(root: &Path) -> UserNamespaces {
    let ids = SubordinateIds { user: "no-such-user".to_owned(), program: "/none".into() };
    UserNamespaces::new(root.to_owned(), 65_536, 110, ids)
}

fn make_pod(root: &Path, uid: &str) -> PodUid {
    fs::create_dir_all(root.join("pods").join(uid)).unwrap();
    uid.into()
}

#[tokio::test]
async fn a_range_is_kept_by_the_next_daemon_and_freed_with_its_pod() {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (make_pod(root.path(), "a"), make_pod(root.path(), "b"));
    let first = namespaces(root.path());
    let of_a = first.of_pod(&a).await.unwrap();
    assert_eq!(first.of_pod(&a).await.unwrap(), of_a);
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(root.path().join("pods/a/userns")).unwrap()).unwrap();
    let mapping = json!([{"hostId": of_a.first, "containerId": 0, "length": 65_536}]);
    assert_eq!(file, json!({"uidMappings": mapping, "gidMappings": mapping}), "the stock kubelet's format");

    let next = namespaces(root.path());
    let of_b = next.of_pod(&b).await.unwrap();
    assert_ne!(of_b, of_a);
    assert_eq!(next.of_pod(&a).await.unwrap(), of_a);
    next.release(&a).unwrap();
    next.release(&a).unwrap();
    assert!(!root.path().join("pods/a/userns").exists());
    let c = make_pod(root.path(), "c");
    assert_ne!(next.of_pod(&c).await.unwrap(), of_b);
}

#[tokio::test]
async fn a_broken_file_affects_its_pod_only() {
    let root = tempfile::tempdir().unwrap();
    let (bad, good) = (make_pod(root.path(), "bad"), make_pod(root.path(), "good"));
    let mapping = |host: u32| json!([{"hostId": host, "containerId": 0, "length": 65_536}]);
    let two = json!({"uidMappings": mapping(65_536), "gidMappings": mapping(131_072)});
    for content in ["{", "[]", &two.to_string()] {
        fs::write(root.path().join("pods/bad/userns"), content).unwrap();
        let namespaces = namespaces(root.path());
        assert!(matches!(namespaces.of_pod(&bad).await, Err(UserNamespaceError::File(_))), "{content}");
        namespaces.of_pod(&good).await.unwrap();
    }
    // The range of another pod.
    let taken = fs::read(root.path().join("pods/good/userns")).unwrap();
    fs::write(root.path().join("pods/bad/userns"), taken).unwrap();
    let namespaces = namespaces(root.path());
    let (of_bad, of_good) = (namespaces.of_pod(&bad).await, namespaces.of_pod(&good).await);
    assert_ne!(of_bad.is_ok(), of_good.is_ok(), "one of them keeps it");
}

#[tokio::test]
async fn a_range_that_cannot_be_stored_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    let namespaces = namespaces(root.path());
    let missing = namespaces.of_pod(&"no-directory".into()).await;
    assert!(matches!(missing, Err(UserNamespaceError::File(_))));
    let a = make_pod(root.path(), "a");
    assert_eq!(namespaces.of_pod(&a).await.unwrap().first, 65_536, "its range is free again");
}

#[test]
fn a_container_shares_the_namespace_of_its_sandbox() {
    let mut sandbox = PodSandboxConfig::default();
    let mut config = ContainerConfig { mounts: vec![Mount::default()], ..ContainerConfig::default() };
    share_users(&mut config, &sandbox);
    assert!(config.linux.is_none() && config.mounts[0].uid_mappings.is_empty());

    isolate_users(&mut sandbox, IdRange { first: 131_072, length: 65_536 });
    share_users(&mut config, &sandbox);
    let mapping = IdMapping { host_id: 131_072, container_id: 0, length: 65_536 };
    assert_eq!(config.mounts[0].uid_mappings, std::slice::from_ref(&mapping));
    assert_eq!(config.mounts[0].gid_mappings, std::slice::from_ref(&mapping));
    let context = config.linux.unwrap().security_context.unwrap();
    let users = context.namespace_options.unwrap().userns_options.unwrap();
    assert_eq!((users.mode(), users.uids, users.gids), (NamespaceMode::Pod, vec![mapping], vec![mapping]));
}

//! Hosts files, DNS and mounts of containers, compared with the stock kubelet's.

use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::*;
use crate::cri_config::testing::{FULL_UID, full_pod, host, pod};

/// The sources of a container that mounts nothing.
#[derive(Default)]
struct NoVolumes {
    volumes: PodVolumes,
    images: BTreeMap<String, ImageSpec>,
    parts: BTreeMap<usize, PathBuf>,
}

impl NoVolumes {
    fn with_addresses<'a>(&'a self, pod_ips: &'a [IpAddr]) -> MountSources<'a> {
        let Self { volumes, images, parts } = self;
        MountSources { volumes, images, parts, pod_ips, recursive_read_only: false }
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[tokio::test]
async fn files_of_a_start_and_of_the_next() {
    let root = tempfile::tempdir().unwrap();
    let host = HostSettings { root_dir: root.path().into(), ..host() };
    let pod = full_pod();
    let main = &pod.spec.as_ref().unwrap().containers[0];
    let ips = ["10.88.7.89".parse().unwrap()];
    make_pod_dir(&FULL_UID.into(), &host).await.unwrap();
    let none = NoVolumes::default();
    let mounts = container_mounts(&pod, main, none.with_addresses(&ips), &host).await.unwrap();

    let dir = root.path().join("pods").join(FULL_UID);
    assert_eq!(
        (mode(&dir), mode(&dir.join("containers")), mode(&dir.join("containers/main"))),
        (0o750, 0o750, 0o750)
    );
    assert_eq!(
        mounts.iter().map(|m| &*m.container_path).collect::<Vec<_>>(),
        ["/etc/hosts", "/dev/termination-log"]
    );
    assert!(mounts.iter().all(|mount| !mount.readonly && !mount.selinux_relabel));
    let hosts = dir.join("etc-hosts");
    assert_eq!(Path::new(&mounts[0].host_path), hosts);
    assert_eq!(mode(&hosts), 0o644);
    assert!(
        std::fs::read_to_string(&hosts)
            .unwrap()
            .contains("10.88.7.89\tmyhost.sub.demo.svc.cluster.local\tmyhost\n")
    );
    let log = Path::new(&mounts[1].host_path);
    assert_eq!((mode(log), log.metadata().unwrap().len()), (0o666, 0));
    let name = log.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == 8 && name.bytes().all(|b| b.is_ascii_hexdigit()));

    let inode = hosts.metadata().unwrap().ino();
    let ips = ["10.88.7.90".parse().unwrap()];
    let again = container_mounts(&pod, main, none.with_addresses(&ips), &host).await.unwrap();
    assert_ne!(again[1].host_path, mounts[1].host_path);
    assert_eq!(hosts.metadata().unwrap().ino(), inode, "running containers must see the new content");
    assert!(!std::fs::read_to_string(&hosts).unwrap().contains("10.88.7.89"));
}

#[tokio::test]
async fn a_hosts_file_of_the_containers_own_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let host = HostSettings { root_dir: root.path().into(), ..host() };
    let own = json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/etc/hosts"}]});
    let pod = pod(json!({"containers": [own, {"name": "plain"}]}));
    let containers = &pod.spec.as_ref().unwrap().containers;
    let ips = ["10.0.0.2".parse().unwrap()];
    let none = NoVolumes::default();
    let mounts = async |container, ips: &[IpAddr]| {
        container_mounts(&pod, container, none.with_addresses(ips), &host).await.unwrap()
    };
    assert!(mounts(&containers[0], &ips).await.is_empty());
    assert!(mounts(&containers[1], &[]).await.is_empty());
    assert_eq!(mounts(&containers[1], &ips).await.len(), 1);
}

#[tokio::test]
async fn dns_comes_from_the_configured_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("resolv.conf");
    std::fs::write(&path, "nameserver 9.9.9.9\nsearch corp.example\n").unwrap();
    let host = HostSettings { resolv_conf: Some(path.clone()), ..host() };
    let pod = pod(json!({"dnsPolicy": "Default", "containers": []}));
    assert_eq!(pod_dns(&pod, &host).await.unwrap().0.servers, ["9.9.9.9"]);
    assert_eq!(resolv_conf_problem(&host).await, None);
    std::fs::write(&path, "search ".to_owned() + &"a ".repeat(40)).unwrap();
    assert!(resolv_conf_problem(&host).await.unwrap().contains("more than 29 domains"));
    std::fs::remove_file(&path).unwrap();
    let error = pod_dns(&pod, &host).await.unwrap_err();
    let unreadable = format!("reading {}", path.display());
    assert_eq!(error.to_string(), unreadable);
    assert!(resolv_conf_problem(&host).await.unwrap().starts_with(&unreadable));
}

/// The stock kubelet's mounts for these volumes.
#[test]
fn volume_mounts_equal_the_stock_kubelets() {
    let pod = pod(json!({"containers": [{"name": "main", "volumeMounts": [
        {"name": "empty", "mountPath": "/empty"},
        {"name": "sec", "mountPath": "sec", "readOnly": true},
        {"name": "cm", "mountPath": "/cm"},
        {"name": "host", "mountPath": "/host", "mountPropagation": "HostToContainer", "readOnly": true},
        {"name": "none", "mountPath": "/none"}
    ]}]}));
    let of = |path: &str, read_only, relabel| hostlet_volume::Mounted {
        host_path: path.into(),
        read_only,
        relabel,
    };
    let mounted = [
        ("empty", of("/v/empty", false, true)),
        ("sec", of("/v/sec", true, true)),
        ("cm", of("/v/cm", true, true)),
        ("host", of("/tmp/golden-host", false, false)),
    ];
    let mounted = mounted.map(|(name, volume)| (name.to_owned(), volume)).into();
    let volumes = PodVolumes { mounted, ..PodVolumes::default() };
    let kernel = crate::cri_config::KernelFacts { selinux: true, ..Default::default() };
    let host = HostSettings { kernel, ..host() };
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let part = [(2, PathBuf::from("/part"))].into();
    let none = NoVolumes::default();
    let sources = MountSources { volumes: &volumes, parts: &part, ..none.with_addresses(&[]) };
    let mounts: Vec<_> = volume_mounts(container, sources, &host)
        .unwrap()
        .into_iter()
        .map(|m| (m.container_path, m.host_path, m.readonly, m.propagation, m.selinux_relabel))
        .collect();
    let expected = [
        ("/empty", "/v/empty", false, 0, true),
        ("/sec", "/v/sec", true, 0, true),
        ("/cm", "/part", true, 0, true),
        ("/host", "/tmp/golden-host", true, 1, false),
    ];
    assert_eq!(mounts, expected.map(|(c, h, ro, p, se)| (c.to_owned(), h.to_owned(), ro, p, se)));
}

#[test]
fn an_image_is_mounted_read_only_by_the_runtime() {
    let pod = pod(json!({"containers": [{"name": "c", "volumeMounts": [
        {"name": "model", "mountPath": "/model"},
        {"name": "model", "mountPath": "part", "subPath": "a/b", "readOnly": true}
    ]}]}));
    let image = ImageSpec { image: "sha256:1".into(), ..ImageSpec::default() };
    let images = [("model".to_owned(), image.clone())].into();
    let parts = [(1, PathBuf::from("a/b"))].into();
    let none = NoVolumes::default();
    let sources = MountSources { images: &images, parts: &parts, ..none.with_addresses(&[]) };
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let mounts = volume_mounts(container, sources, &host()).unwrap();
    let mount = |path: &str, part: &str| Mount {
        container_path: path.to_owned(),
        image: Some(image.clone()),
        image_sub_path: part.to_owned(),
        readonly: true,
        ..Mount::default()
    };
    assert_eq!(mounts, [mount("/model", ""), mount("/part", "a/b")]);
}

#[test]
fn submounts_are_read_only_where_the_runtime_supports_it() {
    let mount = |path: &str, mode: &str| json!({"name": "v", "mountPath": path, "readOnly": true, "recursiveReadOnly": mode});
    let of = |mounts: serde_json::Value, recursive_read_only| {
        let pod = pod(json!({"containers": [{"name": "c", "volumeMounts": mounts}]}));
        let volume = hostlet_volume::Mounted { host_path: "/v".into(), read_only: false, relabel: false };
        let volumes = PodVolumes { mounted: [("v".to_owned(), volume)].into(), ..PodVolumes::default() };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let none = NoVolumes::default();
        let sources = MountSources { volumes: &volumes, recursive_read_only, ..none.with_addresses(&[]) };
        let mounts = volume_mounts(container, sources, &host())?;
        Ok::<_, ConfigError>(mounts.iter().map(|mount| mount.recursive_read_only).collect::<Vec<_>>())
    };
    let all = || json!([mount("/a", "Enabled"), mount("/b", "IfPossible"), mount("/c", "Disabled")]);
    assert_eq!(of(all(), true), Ok(vec![true, true, false]));
    assert_eq!(of(json!([mount("/b", "IfPossible")]), false), Ok(vec![false]));
    assert_eq!(
        of(all(), false).unwrap_err().to_string(),
        "volume \"v\" requested recursive read-only mode, but it is not supported by the runtime"
    );
}

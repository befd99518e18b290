//! Files that a pod's containers need: the pod's directory, `/etc/hosts`, termination logs and the host's resolv.conf. I/O only;
//! their contents are decided elsewhere. Never removes anything.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hostlet_runtime::cri::wire::{DnsConfig, ImageSpec, Mount, MountPropagation};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::dns::{self, DnsWarning, ResolvConfError, parse_resolv_conf};
use super::hostname::hostname_and_domain;
use super::{ConfigError, HostSettings, hosts};

use hostlet_base::{PodUid, error_chain};
use hostlet_host::{PodDirs, file_work};
use hostlet_pod::view::PodView;
use hostlet_pod::{absolute_mount_path, recursive_read_only};
use hostlet_volume::PodVolumes;

const ETC_HOSTS: &str = "/etc/hosts";
/// Only root and the group can access a pod's directory; mounts from it have their own modes.
const DIR_MODE: u32 = 0o750;
const ETC_HOSTS_MODE: u32 = 0o644;
/// A container's process can run as any user and must be able to write its termination log.
const TERMINATION_LOG_MODE: u32 = 0o666;

/// A file of a pod could not be created or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// A directory could not be created.
    #[error("making directory {}", path.display())]
    MakeDir {
        /// The directory.
        path: PathBuf,
        source: io::Error,
    },
    /// A file could not be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// A file could not be written.
    #[error("writing {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The host's resolv.conf is invalid.
    #[error("parsing resolver file {}", path.display())]
    ResolvConf {
        /// The file.
        path: PathBuf,
        source: ResolvConfError,
    },
    /// The pod's UID is no name of a directory.
    #[error("the UID {0:?} is no name of a directory")]
    Uid(PodUid),
    /// The pod cannot be configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What the mounts of a container are made from, besides its spec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountSources<'a> {
    /// The pod's volumes on the host.
    pub volumes: &'a PodVolumes,
    /// The images of the container's image volumes, by volume.
    pub images: &'a BTreeMap<String, ImageSpec>,
    /// The parts of volumes, by the index of their mount: where they are mounted on the host, or paths in images.
    pub parts: &'a BTreeMap<usize, PathBuf>,
    /// The addresses of the pod's sandbox.
    pub pod_ips: &'a [IpAddr],
    /// Whether the runtime's handler of the pod supports recursive read-only mounts.
    pub recursive_read_only: bool,
}

/// Creates the pod's directory. Idempotent.
pub(crate) async fn make_pod_dir(uid: &PodUid, host: &HostSettings) -> Result<(), FilesError> {
    make_dir(dirs_of(uid, host)?.path()).await
}

fn dirs_of(uid: &PodUid, host: &HostSettings) -> Result<PodDirs, FilesError> {
    PodDirs::new(&host.root_dir, uid).ok_or_else(|| FilesError::Uid(uid.clone()))
}

/// DNS configuration of a pod, with warnings for its owner. Reads the host's resolv.conf each time, because it changes with the
/// host's network.
pub(crate) async fn pod_dns(
    pod: &Pod,
    host: &HostSettings,
) -> Result<(DnsConfig, Vec<DnsWarning>), FilesError> {
    let resolver = match &host.resolv_conf {
        None => DnsConfig::default(),
        Some(path) => read_resolv_conf(path).await?,
    };
    Ok(dns::pod_dns(PodView::from(pod), resolver, host))
}

/// What is wrong with the host's resolv.conf whatever pods come: it cannot be read, or exceeds their limits.
pub async fn resolv_conf_problem(host: &HostSettings) -> Option<String> {
    let path = host.resolv_conf.as_ref()?;
    match read_resolv_conf(path).await {
        Ok(found) => dns::exceeded_search_limit(&found.searches, path, &host.cluster_domain),
        Err(error) => Some(error_chain(&error)),
    }
}

async fn read_resolv_conf(path: &Path) -> Result<DnsConfig, FilesError> {
    let content = read(path).await?;
    let parsed = parse_resolv_conf(&String::from_utf8_lossy(&content));
    parsed.map_err(|source| FilesError::ResolvConf { path: path.to_owned(), source })
}

/// Creates the files for a container's next start and returns its mounts: volumes in the order of its spec, then a rewritten
/// `/etc/hosts` and a new termination log. Missing volumes are skipped.
pub(crate) async fn container_mounts(
    pod: &Pod,
    container: &Container,
    sources: MountSources<'_>,
    host: &HostSettings,
) -> Result<Vec<Mount>, FilesError> {
    let view = PodView::from(pod);
    let dirs = dirs_of(&view.uid.into(), host)?;
    let dir = dirs.container(&container.name);
    make_dir(&dir).await?;
    let mut mounts = volume_mounts(container, sources, host)?;
    if has_managed_hosts(view, container, sources.pod_ips) {
        let path = dirs.hosts_file();
        write_in_place(&path, hosts_content(view, sources.pod_ips, host).await?, ETC_HOSTS_MODE).await?;
        mounts.push(mount(&path, ETC_HOSTS, host));
    }
    if let Some(wanted) = container.termination_message_path.as_deref().filter(|path| !path.is_empty()) {
        let path = dir.join(format!("{:08x}", rand::random::<u32>()));
        write_in_place(&path, Vec::new(), TERMINATION_LOG_MODE).await?;
        mounts.push(mount(&path, wanted, host));
    }
    Ok(mounts)
}

fn volume_mounts(
    container: &Container,
    sources: MountSources<'_>,
    host: &HostSettings,
) -> Result<Vec<Mount>, ConfigError> {
    let wanted = container.volume_mounts.iter().flatten().enumerate();
    let mounts = wanted.filter_map(|(index, wanted)| {
        let part = sources.parts.get(&index);
        let source = match sources.images.get(&wanted.name) {
            Some(image) => Mount {
                image: Some(image.clone()),
                image_sub_path: part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default(),
                readonly: true,
                ..Mount::default()
            },
            None => {
                let volume = sources.volumes.mounted.get(&wanted.name)?;
                Mount {
                    host_path: part.unwrap_or(&volume.host_path).to_string_lossy().into_owned(),
                    readonly: volume.read_only || wanted.read_only.unwrap_or(false),
                    selinux_relabel: volume.relabel && host.kernel.selinux,
                    ..Mount::default()
                }
            }
        };
        let propagation = match wanted.mount_propagation.as_deref() {
            Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => MountPropagation::PropagationBidirectional,
            Some(_) | None => MountPropagation::PropagationPrivate,
        };
        let recursive = recursive_read_only(wanted, sources.recursive_read_only);
        let Some(recursive_read_only) = recursive else {
            return Some(Err(ConfigError::RecursiveReadOnly(wanted.name.clone())));
        };
        Some(Ok(Mount {
            container_path: absolute_mount_path(wanted),
            propagation: propagation.into(),
            recursive_read_only,
            ..source
        }))
    });
    mounts.collect()
}

/// Skipped if the container mounts its own file there or the pod has no addresses.
fn has_managed_hosts(pod: PodView<'_>, container: &Container, pod_ips: &[IpAddr]) -> bool {
    let own = container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == ETC_HOSTS);
    !own && (pod.host_network() || !pod_ips.is_empty())
}

async fn hosts_content(
    pod: PodView<'_>,
    pod_ips: &[IpAddr],
    host: &HostSettings,
) -> Result<Vec<u8>, FilesError> {
    let aliases = pod.spec.host_aliases.as_deref().unwrap_or_default();
    if pod.host_network() {
        return Ok(hosts::of_host(&read(Path::new(ETC_HOSTS)).await?, aliases));
    }
    let (hostname, domain) = hostname_and_domain(pod, &host.cluster_domain)?;
    Ok(hosts::managed(pod_ips, &hostname, &domain, aliases))
}

fn mount(host_path: &Path, container_path: &str, host: &HostSettings) -> Mount {
    Mount {
        container_path: container_path.to_owned(),
        host_path: host_path.to_string_lossy().into_owned(),
        selinux_relabel: host.kernel.selinux,
        ..Default::default()
    }
}

async fn make_dir(path: &Path) -> Result<(), FilesError> {
    let dir = path.to_owned();
    let made = blocking(move || fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)).await;
    made.map_err(|source| FilesError::MakeDir { path: path.to_owned(), source })
}

async fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    let file = path.to_owned();
    let read = blocking(move || fs::read(file)).await;
    read.map_err(|source| FilesError::Read { path: path.to_owned(), source })
}

/// Writes the file in place: mounts of running containers would not see a renamed one. The mode is set afterwards because the
/// umask restricts that of a new file.
async fn write_in_place(path: &Path, content: Vec<u8>, mode: u32) -> Result<(), FilesError> {
    let file = path.to_owned();
    let written = blocking(move || {
        fs::write(&file, content)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))
    });
    written.await.map_err(|source| FilesError::Write { path: path.to_owned(), source })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    file_work(work).await.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

#[cfg(test)]
mod tests {
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
}

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
#[path = "files_tests.rs"]
mod tests;

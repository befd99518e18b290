//! The node service: stages and publishes volumes with real mounts.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use hostlet_host::filesystem_usage;
use hostlet_proto::csi;
use hostlet_proto::csi::node_service_capability::rpc::Type as RpcType;
use hostlet_proto::csi::node_service_capability::{Rpc, Type};
use hostlet_proto::csi::volume_capability::access_mode::Mode;
use hostlet_proto::csi::volume_capability::{AccessType, MountVolume};
use hostlet_proto::csi::volume_usage::Unit;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use crate::calls::{Calls, Failed, invalid, not_found, required};
use crate::controller::ATTACHED_TO;
use crate::host;
use crate::options::Options;
use crate::published::{Published, Staged, Target};
use crate::volumes::{Volume, Volumes};

/// Whether the volume only lives in the pod (upstream, with `podInfoOnMount`).
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// The attribute of a volume that nobody created before, as of a PersistentVolume that somebody writes by hand.
const CREATE: &str = "create";
/// The rights of a directory that belongs to a group: its new files do, too.
const GROUP_RIGHTS: u32 = 0o2775;

pub(crate) struct Node {
    options: Arc<Options>,
    calls: Arc<Calls>,
    work: Arc<Work>,
}

/// What the calls work with.
struct Work {
    options: Arc<Options>,
    volumes: Arc<Volumes>,
    published: Mutex<Published>,
}

impl Node {
    pub(crate) fn new(options: Arc<Options>, calls: Arc<Calls>, volumes: Arc<Volumes>) -> Result<Self> {
        let published = Mutex::new(Published::read(volumes.node_file(&options.node_id))?);
        let work = Arc::new(Work { options: options.clone(), volumes, published });
        Ok(Self { options, calls, work })
    }

    /// Serves a call, `about` which the journal says this.
    async fn serve<Q, A>(
        &self,
        call: &'static str,
        about: Value,
        request: Request<Q>,
        work: fn(&Work, &Q) -> Result<A, Failed>,
    ) -> Result<Response<A>, Status>
    where
        Q: Send + 'static,
        A: Send + 'static,
    {
        let (node, request) = (self.work.clone(), request.into_inner());
        self.calls.serve(call, about, move || work(&node, &request)).await
    }
}

/// A volume's use.
fn capability(
    capability: Option<&csi::VolumeCapability>,
) -> Result<(&csi::VolumeCapability, Option<&MountVolume>), Failed> {
    let capability = capability.ok_or_else(|| invalid("volume_capability is missing"))?;
    match &capability.access_type {
        Some(AccessType::Mount(mount)) => Ok((capability, Some(mount))),
        Some(AccessType::Block(_)) => Ok((capability, None)),
        None => Err(invalid("volume_capability.access_type is missing")),
    }
}

/// The names of secrets, whose values are nobody's business.
fn names(secrets: &HashMap<String, String>) -> Vec<&String> {
    secrets.keys().collect()
}

fn filesystem(mount: &MountVolume) -> Result<&'static str, Failed> {
    match mount.fs_type.as_str() {
        "" | "ext4" => Ok("ext4"),
        "ext3" => Ok("ext3"),
        "xfs" => Ok("xfs"),
        other => Err(invalid(&format!("fs_type {other} is not supported"))),
    }
}

impl Work {
    /// The volume of a call, which is created if its attributes say so.
    fn volume(&self, id: &str, context: &HashMap<String, String>, is_block: bool) -> Result<Volume, Failed> {
        let is_set = |key: &str| context.get(key).is_some_and(|value| value == "true");
        let volume = if is_set(EPHEMERAL) {
            self.volumes.ensure(id, false)?
        } else if is_set(CREATE) {
            self.volumes.ensure(id, self.options.is_image || is_block)?
        } else {
            self.volumes.get(id)?
        };
        if is_block && !volume.is_image {
            return Err(invalid("a directory is no device"));
        }
        Ok(volume)
    }

    fn check_attached(&self, context: &HashMap<String, String>) -> Result<(), Failed> {
        let node = &self.options.node_id;
        if !self.options.attaches || context.get(ATTACHED_TO) == Some(node) {
            return Ok(());
        }
        Err(Failed::Violation(format!(
            "the publish context does not say that the volume is attached to {node}"
        )))
    }

    /// Mounts a volume's data on a directory.
    fn mount(&self, volume: &Volume, target: &Path, mount: &MountVolume) -> Result<(), Failed> {
        let (data, filesystem) = (self.volumes.data(volume), filesystem(mount)?);
        if volume.is_image {
            let device = host::attach(&data)?;
            host::format_if_blank(&device, filesystem)?;
            let mounted = host::mount(&device, target, filesystem, mount.mount_flags.clone());
            // It is freed when it is mounted nowhere any more.
            host::detach(&data)?;
            mounted?;
        } else {
            host::bind(&data.to_string_lossy(), target, &mount.mount_flags)?;
        }
        if let Ok(group) = mount.volume_mount_group.parse() {
            chown(target, None, Some(group)).context("giving a volume to its group")?;
            fs::set_permissions(target, Permissions::from_mode(GROUP_RIGHTS))
                .context("setting its rights")?;
        }
        Ok(())
    }

    fn stage(&self, request: &csi::NodeStageVolumeRequest) -> Result<csi::NodeStageVolumeResponse, Failed> {
        let id = required(&request.volume_id, "volume_id")?;
        let staging = PathBuf::from(required(&request.staging_target_path, "staging_target_path")?);
        let (_, mount) = capability(request.volume_capability.as_ref())?;
        let volume = self.volume(id, &request.volume_context, mount.is_none())?;
        self.check_attached(&request.publish_context)?;
        let mut published = self.published.lock();
        if let Some(staged) = published.staged(id)
            && staged.path != staging
        {
            return Err(Failed::Violation(format!("{id} is staged at {}", staged.path.display())));
        }
        match mount {
            Some(_) if host::is_mounted(&staging)? => {}
            Some(_) if !staging.is_dir() => {
                return Err(Failed::Violation(format!("there is no directory {}", staging.display())));
            }
            Some(mount) => self.mount(&volume, &staging, mount)?,
            None => drop(host::attach(&self.volumes.data(&volume))?),
        }
        published.set_staged(id, Some(Staged { path: staging, is_block: mount.is_none() }))?;
        Ok(csi::NodeStageVolumeResponse {})
    }

    fn unstage(
        &self,
        request: &csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Failed> {
        let id = required(&request.volume_id, "volume_id")?;
        let staging = PathBuf::from(required(&request.staging_target_path, "staging_target_path")?);
        let mut published = self.published.lock();
        if let Some((target, _)) = published.targets_of(id).next() {
            return Err(Failed::Violation(format!("{id} is published at {}", target.display())));
        }
        let Some(staged) = published.staged(id).cloned() else {
            return Ok(csi::NodeUnstageVolumeResponse {});
        };
        if staged.path != staging {
            return Err(Failed::Violation(format!("{id} is staged at {}", staged.path.display())));
        }
        if staged.is_block {
            host::detach(&self.volumes.data(&self.volumes.get(id)?))?;
        } else {
            host::unmount(&staging)?;
        }
        published.set_staged(id, None)?;
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    fn publish(
        &self,
        request: &csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Failed> {
        let id = required(&request.volume_id, "volume_id")?;
        let path = PathBuf::from(required(&request.target_path, "target_path")?);
        let (capability, mount) = capability(request.volume_capability.as_ref())?;
        let volume = self.volume(id, &request.volume_context, mount.is_none())?;
        let is_ephemeral = request.volume_context.get(EPHEMERAL).is_some_and(|value| value == "true");
        if !is_ephemeral {
            self.check_attached(&request.publish_context)?;
        }
        let mode = capability.access_mode.map(|mode| mode.mode());
        let target = Target {
            volume: id.to_owned(),
            is_block: mount.is_none(),
            read_only: request.readonly,
            is_single: mode == Some(Mode::SingleNodeSingleWriter),
            is_ephemeral,
        };
        let mut published = self.published.lock();
        match published.target(&path) {
            Some(known) if known.volume != id => {
                return Err(Failed::Violation(format!("{} is published there", known.volume)));
            }
            Some(known) if *known != target => {
                return Err(Status::already_exists("the volume is published there in another way").into());
            }
            Some(_) => return Ok(csi::NodePublishVolumeResponse {}),
            None => {}
        }
        if let Some((other, _)) =
            published.targets_of(id).find(|(_, other)| other.is_single || target.is_single)
        {
            return Err(Failed::Violation(format!(
                "{id} is of one pod, and published at {}",
                other.display()
            )));
        }
        let staging = Path::new(&request.staging_target_path);
        let is_staged = self.options.has("Node", "STAGE_UNSTAGE_VOLUME") && !is_ephemeral;
        if is_staged && published.staged(id).is_none_or(|staged| staged.path != staging) {
            return Err(Failed::Violation(format!("{id} is not staged at {}", staging.display())));
        }
        if !path.parent().is_some_and(Path::is_dir) {
            return Err(Failed::Violation(format!("there is no directory for {}", path.display())));
        }
        let read_only: &[String] = if request.readonly { &["ro".to_owned()] } else { &[] };
        match mount {
            Some(mount) => {
                fs::create_dir_all(&path).context("creating a target")?;
                if is_staged {
                    host::bind(&staging.to_string_lossy(), &path, read_only)?;
                } else {
                    let mut mount = mount.clone();
                    mount.mount_flags.extend_from_slice(read_only);
                    self.mount(&volume, &path, &mount)?;
                }
            }
            None => {
                let device = host::attach(&self.volumes.data(&volume))?;
                fs::write(&path, "").context("creating a target")?;
                host::bind(&device, &path, &[])?;
            }
        }
        published.set_target(&path, Some(target))?;
        Ok(csi::NodePublishVolumeResponse {})
    }

    fn unpublish(
        &self,
        request: &csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Failed> {
        let id = required(&request.volume_id, "volume_id")?;
        let path = PathBuf::from(required(&request.target_path, "target_path")?);
        let mut published = self.published.lock();
        let target = published.target(&path).cloned();
        if let Some(target) = &target
            && target.volume != id
        {
            return Err(Failed::Violation(format!("{} is published there", target.volume)));
        }
        host::unmount(&path)?;
        remove(&path)?;
        published.set_target(&path, None)?;
        match target {
            Some(target) if target.is_ephemeral => self.volumes.delete(id)?,
            Some(target) if target.is_block && published.staged(id).is_none() => self.detach_unused(id)?,
            Some(_) | None => {}
        }
        Ok(csi::NodeUnpublishVolumeResponse {})
    }

    /// Frees the device of a volume that is published nowhere.
    fn detach_unused(&self, id: &str) -> Result<(), Failed> {
        let image = self.volumes.data(&self.volumes.get(id)?);
        if let Some(device) = host::device_of(&image)?
            && !host::is_published(&device)?
        {
            host::detach(&image)?;
        }
        Ok(())
    }

    /// Whether a volume is a block device at this path, where it must be staged or published.
    fn is_block(&self, id: &str, path: &Path) -> Result<bool, Failed> {
        let published = self.published.lock();
        let target = published.target(path).filter(|target| target.volume == id);
        let staged = published.staged(id).filter(|staged| staged.path == path);
        let is_block = target.map(|target| target.is_block).or(staged.map(|staged| staged.is_block));
        is_block.ok_or_else(|| not_found(&format!("{id} is not at {}", path.display())))
    }

    fn stats(
        &self,
        request: &csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Failed> {
        let id = required(&request.volume_id, "volume_id")?;
        let path = Path::new(required(&request.volume_path, "volume_path")?);
        let volume = self.volumes.get(id)?;
        let usage = |unit: Unit, total: u64, used: u64, available: u64| {
            let [total, used, available] =
                [total, used, available].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
            csi::VolumeUsage { available, total, used, unit: unit.into() }
        };
        let usage = if self.is_block(id, path)? {
            vec![usage(Unit::Bytes, volume.size, 0, 0)]
        } else {
            let of = filesystem_usage(path).context("measuring a volume")?;
            vec![
                usage(Unit::Bytes, of.capacity, of.used, of.available),
                usage(Unit::Inodes, of.inodes, of.inodes_used(), of.inodes_free),
            ]
        };
        Ok(csi::NodeGetVolumeStatsResponse { usage })
    }

    fn expand(
        &self,
        request: &csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Failed> {
        let id = required(&request.volume_id, "volume_id")?;
        let path = Path::new(required(&request.volume_path, "volume_path")?);
        let volume = self.volumes.get(id)?;
        let is_block = self.is_block(id, path)?;
        if volume.is_image {
            host::grow(&self.volumes.data(&volume), is_block)?;
        }
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes: i64::try_from(volume.size).unwrap_or(i64::MAX) })
    }
}

/// Removes an empty directory or a file, if it exists.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("removing a target"),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[tonic::async_trait]
impl csi::node_server::Node for Node {
    async fn node_get_capabilities(
        &self,
        request: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        self.serve("NodeGetCapabilities", json!({}), request, |node, _| {
            let types = [
                RpcType::StageUnstageVolume,
                RpcType::GetVolumeStats,
                RpcType::ExpandVolume,
                RpcType::SingleNodeMultiWriter,
                RpcType::VolumeMountGroup,
            ];
            let has = types.into_iter().filter(|which| node.options.has("Node", which.as_str_name()));
            let capability = |which: RpcType| csi::NodeServiceCapability {
                r#type: Some(Type::Rpc(Rpc { r#type: which.into() })),
            };
            Ok(csi::NodeGetCapabilitiesResponse { capabilities: has.map(capability).collect() })
        })
        .await
    }

    async fn node_get_info(
        &self,
        request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        self.serve("NodeGetInfo", json!({"node": self.options.node_id}), request, |node, _| {
            let segments: HashMap<String, String> = node.options.topology.clone().into_iter().collect();
            Ok(csi::NodeGetInfoResponse {
                node_id: node.options.node_id.clone(),
                max_volumes_per_node: node.options.max_volumes,
                accessible_topology: Some(csi::Topology { segments })
                    .filter(|topology| !topology.segments.is_empty()),
            })
        })
        .await
    }

    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        let of = request.get_ref();
        let about = json!({
            "volume": of.volume_id, "path": of.staging_target_path, "capability": format!("{:?}", of.volume_capability),
            "context": of.volume_context, "publishContext": of.publish_context, "secrets": names(&of.secrets),
        });
        self.serve("NodeStageVolume", about, request, Work::stage).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Result<Response<csi::NodeUnstageVolumeResponse>, Status> {
        let of = request.get_ref();
        let about = json!({"volume": of.volume_id, "path": of.staging_target_path});
        self.serve("NodeUnstageVolume", about, request, Work::unstage).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        let of = request.get_ref();
        let about = json!({
            "volume": of.volume_id, "path": of.target_path, "staging": of.staging_target_path, "readOnly": of.readonly,
            "capability": format!("{:?}", of.volume_capability), "context": of.volume_context,
            "publishContext": of.publish_context, "secrets": names(&of.secrets),
        });
        self.serve("NodePublishVolume", about, request, Work::publish).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<csi::NodeUnpublishVolumeResponse>, Status> {
        let of = request.get_ref();
        let about = json!({"volume": of.volume_id, "path": of.target_path});
        self.serve("NodeUnpublishVolume", about, request, Work::unpublish).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        let about = json!({"of": request.get_ref().volume_id, "path": request.get_ref().volume_path});
        self.serve("NodeGetVolumeStats", about, request, Work::stats).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        let of = request.get_ref();
        let capacity = of.capacity_range.map(|range| range.required_bytes);
        let about = json!({
            "volume": of.volume_id, "path": of.volume_path, "staging": of.staging_target_path, "capacity": capacity,
            "secrets": names(&of.secrets),
        });
        self.serve("NodeExpandVolume", about, request, Work::expand).await
    }
}

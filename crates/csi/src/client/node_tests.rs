//! Tests of the client with drivers on real sockets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hostlet_plugins::fake::SocketServer;
use hostlet_proto::csi;
use hostlet_proto::csi::node_server::{Node, NodeServer};
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tonic::{Code, Request, Response, Status};

use super::{CallMetrics, GrpcNodeService};
use crate::{
    AccessMode, Capability, ExpandCall, Form, NodeCapabilities, NodeService, PublishCall, Secrets, StageCall,
};

const DRIVER: &str = "csi.example.com";

/// What the driver received, and how it fails.
#[derive(Default)]
struct Seen {
    staged: Vec<csi::NodeStageVolumeRequest>,
    published: Vec<csi::NodePublishVolumeRequest>,
    expanded: Vec<csi::NodeExpandVolumeRequest>,
    capabilities_asked: usize,
    timeout: Option<String>,
    failure: Option<Status>,
}

/// A driver that keeps single writers apart, and hangs in `NodeGetInfo`.
#[derive(Clone, Default)]
struct Driver(Arc<Mutex<Seen>>);

impl Driver {
    fn answer<T: Default>(&self) -> Result<Response<T>, Status> {
        match &self.0.lock().failure {
            Some(status) => Err(status.clone()),
            None => Ok(Response::new(T::default())),
        }
    }
}

#[tonic::async_trait]
impl Node for Driver {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
        let timeout = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
        self.0.lock().timeout = timeout.map(str::to_owned);
        self.0.lock().staged.push(request.into_inner());
        self.answer()
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
        self.0.lock().published.push(request.into_inner());
        self.answer()
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Result<Response<csi::NodeExpandVolumeResponse>, Status> {
        self.0.lock().expanded.push(request.into_inner());
        self.answer()
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        use csi::node_service_capability::{Rpc, Type, rpc};
        self.0.lock().capabilities_asked += 1;
        let can = |what: rpc::Type| csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: what.into() })),
        };
        let capabilities = vec![can(rpc::Type::StageUnstageVolume), can(rpc::Type::SingleNodeMultiWriter)];
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        std::future::pending().await
    }
}

struct Host {
    dir: TempDir,
    driver: Driver,
    metrics: CallMetrics,
}

impl Host {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), driver: Driver::default(), metrics: CallMetrics::default() }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("csi.sock")
    }

    fn serve(&self) -> SocketServer {
        let _ = std::fs::remove_file(self.socket());
        SocketServer::start(&self.socket(), NodeServer::new(self.driver.clone())).unwrap()
    }

    fn client(&self) -> GrpcNodeService {
        GrpcNodeService::new(DRIVER, &self.socket(), self.metrics.clone())
    }
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn stage_call() -> StageCall {
    let form = Form::Filesystem { fs_type: "xfs".to_owned(), options: vec!["noatime".to_owned()] };
    StageCall {
        handle: "vol-1".to_owned(),
        publish_context: map("device", "/dev/sdb"),
        staging: "/globalmount".into(),
        capability: Capability { form, access_mode: AccessMode::ReadWriteOnce, group: Some(2000) },
        secrets: Secrets(map("password", "hunter22")),
        context: map("tier", "gold"),
        is_migrated: false,
    }
}

#[tokio::test]
async fn calls_carry_what_they_must() {
    use csi::volume_capability::access_mode::Mode;
    use csi::volume_capability::{AccessType, MountVolume};
    let host = Host::new();
    let _server = host.serve();
    let client = host.client();
    client.stage(&stage_call()).await.unwrap();
    let publish = PublishCall {
        handle: "vol-1".to_owned(),
        publish_context: BTreeMap::new(),
        staging: None,
        target: "/pods/mount".into(),
        capability: Capability { form: Form::Block, access_mode: AccessMode::ReadWriteOncePod, group: None },
        read_only: true,
        secrets: Secrets::default(),
        context: BTreeMap::new(),
        is_migrated: false,
    };
    client.publish(&publish).await.unwrap();
    let expand = ExpandCall {
        handle: "vol-1".to_owned(),
        path: "/pods/mount".into(),
        staging: Some("/globalmount".into()),
        size: 5 << 30,
        capability: Capability { form: Form::Block, access_mode: AccessMode::ReadWriteMany, group: None },
        secrets: Secrets::default(),
        is_migrated: false,
    };
    assert_eq!(client.expand(&expand).await.unwrap(), None);
    let expected = NodeCapabilities { stage: true, single_node_multi_writer: true, ..Default::default() };
    assert_eq!(client.capabilities().await.unwrap(), expected);

    let seen = host.driver.0.lock();
    assert_eq!(seen.capabilities_asked, 1);
    assert_eq!(seen.timeout.as_deref(), Some("120000m"));
    let staged = &seen.staged[0];
    assert_eq!((staged.volume_id.as_str(), staged.staging_target_path.as_str()), ("vol-1", "/globalmount"));
    assert_eq!(
        (&staged.publish_context["device"], &staged.volume_context["tier"]),
        (&"/dev/sdb".into(), &"gold".into())
    );
    assert_eq!(staged.secrets["password"], "hunter22");
    let capability = staged.volume_capability.as_ref().unwrap();
    assert_eq!(capability.access_mode.unwrap().mode(), Mode::SingleNodeMultiWriter);
    let mount = MountVolume {
        fs_type: "xfs".to_owned(),
        mount_flags: vec!["noatime".to_owned()],
        volume_mount_group: "2000".to_owned(),
    };
    assert_eq!(capability.access_type, Some(AccessType::Mount(mount)));
    let published = &seen.published[0];
    assert_eq!((published.staging_target_path.as_str(), published.target_path.as_str()), ("", "/pods/mount"));
    assert!(published.readonly);
    let capability = published.volume_capability.as_ref().unwrap();
    assert_eq!(capability.access_mode.unwrap().mode(), Mode::SingleNodeSingleWriter);
    assert!(matches!(capability.access_type, Some(AccessType::Block(_))));
    let expanded = &seen.expanded[0];
    assert_eq!(
        (expanded.volume_path.as_str(), expanded.staging_target_path.as_str()),
        ("/pods/mount", "/globalmount")
    );
    assert_eq!(expanded.capacity_range.unwrap().required_bytes, 5 << 30);
}

#[tokio::test]
async fn an_error_is_one_line_without_secrets_and_counted() {
    let host = Host::new();
    let _server = host.serve();
    host.driver.0.lock().failure = Some(Status::internal("mount failed:\nlogin with hunter22"));
    let error = host.client().stage(&stage_call()).await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = Internal desc = mount failed:\\nlogin with ***");
    assert_eq!(error.call, "NodeStageVolume");
    let _ = host.client().stage(&StageCall { is_migrated: true, ..stage_call() }).await;
    let metrics = Metrics::default();
    host.metrics.register(&metrics);
    let count = |method: &str, code: &str, is_migrated: bool, number: u32| {
        format!(
            "csi_operations_seconds_count{{driver_name=\"{DRIVER}\",grpc_status_code=\"{code}\",method_name=\"/csi.v1.Node/{method}\",\
             migrated=\"{is_migrated}\"}} {number}"
        )
    };
    let text = metrics.encode();
    let staged = |is_migrated| count("NodeStageVolume", "Internal", is_migrated, 1);
    for expected in [staged(false), staged(true), count("NodeGetCapabilities", "OK", false, 2)] {
        assert!(text.contains(&expected), "{text}");
    }
}

#[tokio::test]
async fn a_method_that_the_driver_does_not_have_is_unimplemented() {
    let host = Host::new();
    let _server = host.serve();
    let error = host.client().stats("vol-1", Path::new("/pods/mount")).await.unwrap_err();
    assert_eq!(error.code, Code::Unimplemented);
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_deadline() {
    let host = Host::new();
    let _server = host.serve();
    let client = host.client().with_deadline(Duration::ZERO);
    let error = client.info().await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
    assert!(!error.is_final());
}

#[tokio::test]
async fn a_driver_that_is_gone_is_unavailable_and_found_again() {
    let host = Host::new();
    let client = host.client();
    let error = client.capabilities().await.unwrap_err();
    assert_eq!((error.code, error.is_final()), (Code::Unavailable, false));
    let text = error.to_string();
    assert!(text.contains("csi.sock") && text.contains("No such file"), "{text}");
    // It dies under a call.
    let listener = UnixListener::bind(host.socket()).unwrap();
    let dies = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.read_exact(&mut [0; 64]).await.unwrap();
    };
    let (answer, ()) = tokio::join!(client.info(), dies);
    let error = answer.unwrap_err();
    assert_eq!((error.code, error.is_final()), (Code::Unavailable, false), "{error}");
    // It is back at the same socket.
    let _server = host.serve();
    client.stage(&stage_call()).await.unwrap();
}

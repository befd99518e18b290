//! Calls over real sockets, to drivers of both versions.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, stream};
use hostlet_plugins::fake::SocketServer;
use hostlet_plugins::lazy_channel;
use hostlet_proto::dra_health::{DeviceHealth, NodeWatchResourcesRequest, NodeWatchResourcesResponse};
use hostlet_proto::dra_plugin as wire;
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use tempfile::TempDir;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use super::health::HealthService;
use super::versions::{HealthVersion, PluginVersion};
use super::{CallMetrics, GrpcDriver, GrpcHealth, WatchError};
use crate::{CallError, ClaimRef, DriverService};

const NAME: &str = "gpu.example.com";

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Well,
    WithErrors,
    Fails,
    Hangs,
}

/// What the driver serves.
trait Served: Clone + Send + Sync + 'static {
    const NAME: &'static str;
}

#[derive(Clone)]
struct V1;
#[derive(Clone)]
struct V1Beta1;
#[derive(Clone)]
struct Health;

impl Served for V1 {
    const NAME: &'static str = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin";
}

impl Served for V1Beta1 {
    const NAME: &'static str = "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin";
}

impl Served for Health {
    const NAME: &'static str = "v1alpha1.DRAResourceHealth";
}

#[derive(Clone)]
struct Driver<S> {
    answer: Answer,
    timeouts: Arc<Mutex<Vec<String>>>,
    _served: S,
}

impl<S: Served> NamedService for Driver<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Driver<S> {
    async fn answer<T: Default>(self, good: T) -> Result<Response<T>, Status> {
        match self.answer {
            Answer::Well | Answer::WithErrors => Ok(Response::new(good)),
            Answer::Fails => Err(Status::internal("the hardware\nburns")),
            Answer::Hangs => std::future::pending().await,
        }
    }

    fn error(&self) -> String {
        if self.answer == Answer::WithErrors { "no\ndevice".to_owned() } else { String::new() }
    }
}

impl<S: Served> UnaryService<wire::NodePrepareResourcesRequest> for Driver<S> {
    type Response = wire::NodePrepareResourcesResponse;
    type Future = BoxFuture<'static, Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<wire::NodePrepareResourcesRequest>) -> Self::Future {
        let timeout = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
        self.timeouts.lock().extend(timeout.map(str::to_owned));
        let device = |claim: &wire::Claim| wire::Device {
            request_names: vec!["r".to_owned()],
            pool_name: claim.namespace.clone(),
            device_name: claim.name.clone(),
            cdi_device_ids: vec!["v/c=d".to_owned()],
            share_id: Some("share".to_owned()),
        };
        let claims = request.into_inner().claims.into_iter().map(|claim| {
            let devices = vec![device(&claim)];
            (claim.uid, wire::NodePrepareResourceResponse { devices, error: self.error() })
        });
        let response = wire::NodePrepareResourcesResponse { claims: claims.collect() };
        self.clone().answer(response).boxed()
    }
}

impl<S: Served> UnaryService<wire::NodeUnprepareResourcesRequest> for Driver<S> {
    type Response = wire::NodeUnprepareResourcesResponse;
    type Future = BoxFuture<'static, Result<Response<Self::Response>, Status>>;

    fn call(&mut self, request: Request<wire::NodeUnprepareResourcesRequest>) -> Self::Future {
        let claims = request.into_inner().claims.into_iter();
        let claims: HashMap<_, _> = claims
            .map(|claim| (claim.uid, wire::NodeUnprepareResourceResponse { error: self.error() }))
            .collect();
        self.clone().answer(wire::NodeUnprepareResourcesResponse { claims }).boxed()
    }
}

impl<S: Served> ServerStreamingService<NodeWatchResourcesRequest> for Driver<S> {
    type Response = NodeWatchResourcesResponse;
    type ResponseStream = stream::BoxStream<'static, Result<NodeWatchResourcesResponse, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<NodeWatchResourcesRequest>) -> Self::Future {
        if self.answer == Answer::Fails {
            return async { Err(Status::unimplemented("not here")) }.boxed();
        }
        let message = NodeWatchResourcesResponse { devices: vec![DeviceHealth::default()] };
        let messages = [Ok(message), Err(Status::unavailable("it ends"))];
        async { Ok(Response::new(stream::iter(messages).boxed())) }.boxed()
    }
}

impl<S: Served> Service<http::Request<Body>> for Driver<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let driver = self.clone();
        async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match method.as_str() {
                "NodePrepareResources" => {
                    let mut grpc = Grpc::new(ProstCodec::<_, wire::NodePrepareResourcesRequest>::default());
                    grpc.unary(driver, request).await
                }
                "NodeUnprepareResources" => {
                    let mut grpc = Grpc::new(ProstCodec::<_, wire::NodeUnprepareResourcesRequest>::default());
                    grpc.unary(driver, request).await
                }
                _ => {
                    let mut grpc = Grpc::new(ProstCodec::<_, NodeWatchResourcesRequest>::default());
                    grpc.server_streaming(driver, request).await
                }
            })
        }
        .boxed()
    }
}

/// A driver on a socket.
struct Bed {
    dir: TempDir,
    timeouts: Arc<Mutex<Vec<String>>>,
    _server: SocketServer,
}

impl Bed {
    fn new<S: Served>(served: S, answer: Answer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let timeouts = Arc::<Mutex<Vec<String>>>::default();
        let driver = Driver { answer, timeouts: timeouts.clone(), _served: served };
        let server = SocketServer::start(&dir.path().join("dra.sock"), driver).unwrap();
        Self { dir, timeouts, _server: server }
    }

    fn client(&self, version: PluginVersion, metrics: &CallMetrics) -> GrpcDriver {
        let socket = self.dir.path().join("dra.sock");
        GrpcDriver::new(NAME, version, &socket, lazy_channel(&socket), metrics.clone())
    }
}

fn claim() -> ClaimRef {
    ClaimRef { namespace: "ns".to_owned(), name: "gpu".to_owned(), uid: "u".to_owned() }
}

async fn both(client: &GrpcDriver) -> (Result<(), String>, Result<(), String>) {
    let prepared = client.prepare(&[claim()]).await.unwrap();
    let unprepared = client.unprepare(&[claim()]).await.unwrap();
    let prepared = prepared["u"].clone().map(|devices| {
        let device = &devices[0];
        assert_eq!(
            (&*device.pool_name, &*device.device_name, &*device.cdi_device_ids[0]),
            ("ns", "gpu", "v/c=d")
        );
        assert_eq!((device.share_id.as_deref(), &*device.request_names[0]), (Some("share"), "r"));
    });
    (prepared.map_err(|error| error.0), unprepared["u"].clone().map_err(|error| error.0))
}

#[tokio::test]
async fn claims_are_prepared_and_unprepared_in_either_version() {
    let metrics = CallMetrics::default();
    let new = Bed::new(V1, Answer::Well);
    assert_eq!(both(&new.client(PluginVersion::V1, &metrics)).await, (Ok(()), Ok(())));
    let old = Bed::new(V1Beta1, Answer::Well);
    assert_eq!(both(&old.client(PluginVersion::V1Beta1, &metrics)).await, (Ok(()), Ok(())));
    assert!(new.timeouts.lock()[0].starts_with("45"), "the driver knows the deadline");
    let failing = Bed::new(V1, Answer::WithErrors);
    let error = Err("no\\ndevice".to_owned());
    assert_eq!(both(&failing.client(PluginVersion::V1, &metrics)).await, (error.clone(), error));
    let all = Metrics::default();
    metrics.register(&all);
    let text = all.encode();
    let line = "dra_grpc_operations_duration_seconds_count{driver_name=\"gpu.example.com\",\
        method_name=\"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources\",grpc_status_code=\"OK\"} 1";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn errors_are_those_of_go() {
    let metrics = CallMetrics::default();
    let bed = Bed::new(V1, Answer::Fails);
    let error = bed.client(PluginVersion::V1, &metrics).prepare(&[claim()]).await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = Internal desc = the hardware\\nburns");
    let bed = Bed::new(V1, Answer::Hangs);
    let client = bed.client(PluginVersion::V1, &metrics).with_deadline(Duration::from_millis(50));
    let error: CallError = client.unprepare(&[claim()]).await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
    // A driver that is not there, and comes.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("dra.sock");
    let client = GrpcDriver::new(NAME, PluginVersion::V1, &socket, lazy_channel(&socket), metrics);
    let error = client.prepare(&[claim()]).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("dra.sock"), "{error}");
    let driver = Driver { answer: Answer::Well, timeouts: Arc::default(), _served: V1 };
    let _server = SocketServer::start(&socket, driver).unwrap();
    client.prepare(&[claim()]).await.unwrap();
}

#[tokio::test]
async fn health_is_a_stream_that_ends() {
    let health_at =
        |version: HealthVersion, socket: &Path| GrpcHealth::new(version, socket, lazy_channel(socket));
    let bed = Bed::new(Health, Answer::Well);
    let health = health_at(HealthVersion::V1Alpha1, &bed.dir.path().join("dra.sock"));
    let mut stream = health.watch().await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().devices.len(), 1);
    let ended = stream.next().await.unwrap().unwrap_err();
    assert_eq!(ended, WatchError::Failed("Unavailable: it ends".to_owned()));
    let bed = Bed::new(Health, Answer::Fails);
    let health = health_at(HealthVersion::V1Alpha1, &bed.dir.path().join("dra.sock"));
    assert_eq!(health.watch().await.err(), Some(WatchError::Unimplemented));
    let error = health_at(HealthVersion::V1, &bed.dir.path().join("none.sock")).watch().await.err().unwrap();
    assert!(error.to_string().contains("none.sock: No such file"), "{error}");
}

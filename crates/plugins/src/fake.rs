//! A scripted plugin for tests: a gRPC server on a registration socket. Registers with nothing by itself. Also the server alone.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream;
use hostlet_proto::registration::{
    GET_INFO, InfoRequest, NOTIFY_REGISTRATION_STATUS, PluginInfo, RegistrationStatus,
    RegistrationStatusResponse, SERVICE,
};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

/// How long a test waits for a report.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a plugin answers a call.
#[derive(Clone, Debug)]
pub enum Script {
    /// As it should.
    Answers,
    /// Never.
    Hangs,
    /// With this error.
    Fails(Status),
}

/// A plugin that listens on a registration socket. Dropping it ends it like SIGKILL: the socket remains.
pub struct FakePlugin {
    socket: PathBuf,
    served: Served,
    _server: SocketServer,
}

#[derive(Clone)]
struct Served {
    info: Arc<Mutex<PluginInfo>>,
    get_info: Arc<Mutex<Script>>,
    notify: Arc<Mutex<Script>>,
    statuses: watch::Sender<Vec<RegistrationStatus>>,
}

/// What a DRA driver with this endpoint says about itself.
pub fn dra_driver(name: &str, endpoint: &Path) -> PluginInfo {
    PluginInfo {
        r#type: "DRAPlugin".to_owned(),
        name: name.to_owned(),
        endpoint: endpoint.display().to_string(),
        supported_versions: vec!["1.0.0".to_owned()],
    }
}

impl FakePlugin {
    /// Listens on `socket`, in place of what is there. Must be called in a tokio runtime.
    pub fn start(socket: &Path, info: PluginInfo) -> io::Result<Self> {
        let script = || Arc::new(Mutex::new(Script::Answers));
        let (get_info, notify) = (script(), script());
        let statuses = watch::Sender::new(Vec::new());
        let served = Served { info: Arc::new(Mutex::new(info)), get_info, notify, statuses };
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let server = SocketServer::start(socket, served.clone())?;
        Ok(Self { socket: socket.to_owned(), served, _server: server })
    }

    /// Answers `GetInfo` with this from now on, unless the script says otherwise.
    pub fn says(&self, info: PluginInfo) {
        *self.served.info.lock() = info;
    }

    /// Answers `GetInfo` like this from now on.
    pub fn answers_get_info(&self, script: Script) {
        *self.served.get_info.lock() = script;
    }

    /// Answers `NotifyRegistrationStatus` like this from now on.
    pub fn answers_notify(&self, script: Script) {
        *self.served.notify.lock() = script;
    }

    /// The statuses it was notified of, oldest first.
    pub fn statuses(&self) -> Vec<RegistrationStatus> {
        self.served.statuses.borrow().clone()
    }

    /// Waits for more than `known` notifications, and returns the first of these. An empty status if there is none for two minutes.
    pub async fn status(&self, known: usize) -> RegistrationStatus {
        let mut statuses = self.served.statuses.subscribe();
        let seen = timeout(PATIENCE, statuses.wait_for(|statuses| statuses.len() > known)).await;
        let seen = seen.ok().and_then(Result::ok);
        seen.map(|statuses| statuses[known].clone()).unwrap_or_default()
    }

    /// Ends it as it should end: the socket is removed.
    pub fn stop(self) -> io::Result<()> {
        fs::remove_file(&self.socket)
    }
}

/// A gRPC server of one service on a UNIX socket. Dropping it ends it like SIGKILL: the socket remains.
pub struct SocketServer(JoinHandle<Result<(), tonic::transport::Error>>);

impl SocketServer {
    /// Serves `service` on `socket`. Must be called in a tokio runtime.
    pub fn start<S>(socket: &Path, service: S) -> io::Result<Self>
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let incoming = stream::unfold(UnixListener::bind(socket)?, |listener| async move {
            let accepted = listener.accept().await.map(|(connection, _)| connection);
            Some((accepted, listener))
        });
        let server = tonic::transport::Server::builder().add_service(service);
        #[expect(clippy::disallowed_methods, reason = "a server for tests, which ends with this value")]
        let server = tokio::spawn(server.serve_with_incoming(incoming));
        Ok(Self(server))
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow(script: Script) -> Result<(), Status> {
    match script {
        Script::Answers => Ok(()),
        Script::Hangs => std::future::pending().await,
        Script::Fails(status) => Err(status),
    }
}

impl NamedService for Served {
    const NAME: &'static str = SERVICE;
}

impl UnaryService<InfoRequest> for Served {
    type Response = PluginInfo;
    type Future = BoxFuture<'static, Result<Response<PluginInfo>, Status>>;

    fn call(&mut self, _: Request<InfoRequest>) -> Self::Future {
        let (script, info) = (self.get_info.lock().clone(), self.info.lock().clone());
        async move { follow(script).await.map(|()| Response::new(info)) }.boxed()
    }
}

impl UnaryService<RegistrationStatus> for Served {
    type Response = RegistrationStatusResponse;
    type Future = BoxFuture<'static, Result<Response<RegistrationStatusResponse>, Status>>;

    fn call(&mut self, request: Request<RegistrationStatus>) -> Self::Future {
        let script = self.notify.lock().clone();
        self.statuses.send_modify(|statuses| statuses.push(request.into_inner()));
        async move { follow(script).await.map(|()| Response::new(RegistrationStatusResponse {})) }.boxed()
    }
}

impl Service<http::Request<Body>> for Served {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        async move {
            Ok(match request.uri().path() {
                GET_INFO => {
                    Grpc::new(ProstCodec::<PluginInfo, InfoRequest>::default()).unary(service, request).await
                }
                NOTIFY_REGISTRATION_STATUS => {
                    let codec = ProstCodec::<RegistrationStatusResponse, RegistrationStatus>::default();
                    Grpc::new(codec).unary(service, request).await
                }
                _ => Status::unimplemented("no other call").into_http(),
            })
        }
        .boxed()
    }
}

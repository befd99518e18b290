//! An in-memory API server on a real loopback port, for the real daemon. Its faults are scripted; it can be stopped and restarted.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use hostlet_base::WallClock;
use hostlet_cluster::api::fake::{FakeApi, ResponseBody};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// The server with its port.
pub struct FakeApiServer {
    api: FakeApi,
    address: SocketAddr,
    /// Bound to the address without listening, which keeps the port while the server is down.
    _reserved: TcpSocket,
    /// Its own executor: dropping it cuts all connections, like a crash.
    executor: Option<Runtime>,
}

impl FakeApiServer {
    /// Serves an empty cluster.
    pub fn start() -> Result<Self> {
        let reserved = TcpSocket::new_v4().context("making a socket")?;
        // Like the listener, so that both can bind the port.
        reserved.set_reuseaddr(true).context("preparing a socket")?;
        reserved.bind(SocketAddr::from(([127, 0, 0, 1], 0))).context("taking a port of loopback")?;
        let address = reserved.local_addr().context("asking for the port")?;
        let api = FakeApi::new(WallClock::system());
        let mut server = Self { api, address, _reserved: reserved, executor: None };
        server.resume()?;
        Ok(server)
    }

    /// The served objects.
    pub fn api(&self) -> &FakeApi {
        &self.api
    }

    /// A kubeconfig for this server.
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: fake, cluster: {{server: 'http://{}'}}}}]
users: [{{name: node}}]
contexts: [{{name: node, context: {{cluster: fake, user: node}}}}]
current-context: node
",
            self.address
        )
    }

    /// Cuts all connections and refuses new ones. The objects remain.
    pub fn stop(&mut self) {
        if let Some(executor) = self.executor.take() {
            executor.shutdown_background();
        }
    }

    /// Serves again on the same port.
    pub fn resume(&mut self) -> Result<()> {
        self.stop();
        let executor = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fake-api")
            .enable_all()
            .build()
            .context("making the fake API server's executor")?;
        let listener = StdListener::bind(self.address).context("listening on loopback")?;
        listener.set_nonblocking(true).context("preparing the listener")?;
        let listener = {
            let _context = executor.enter();
            TcpListener::from_std(listener).context("preparing the listener")?
        };
        executor.spawn(serve(listener, self.api.clone()));
        self.executor = Some(executor);
        Ok(())
    }
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn serve(listener: TcpListener, api: FakeApi) {
    let api = Arc::new(api);
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let api = api.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(&api, request));
            // An error is a connection cut by either side.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error cuts the connection.
async fn answer(api: &FakeApi, request: Request<Incoming>) -> Result<Response<ResponseBody>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body: Bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    api.answer(Request::from_parts(head, body)).await
}

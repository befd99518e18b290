//! The socket and its server, which can be stopped like a crashed runtime, and started again.

use std::path::PathBuf;

use anyhow::Context;
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::wire::image_service_server::ImageServiceServer;
use hostlet_runtime::cri::wire::runtime_service_server::RuntimeServiceServer;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use super::image::Images;
use super::runtime::Runtimes;

/// A CRI endpoint in its own directory; both are removed on drop.
#[derive(Debug)]
pub struct FakeCri {
    runtime: FakeRuntime,
    directory: TempDir,
    /// A separate executor: dropping it is the only way to cut connections during a call, like a crash.
    executor: Option<Runtime>,
}

impl FakeCri {
    /// Serves `runtime` on a new socket.
    pub fn start(runtime: FakeRuntime) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("making a directory for the CRI socket")?;
        let mut fake = Self { runtime, directory, executor: None };
        fake.resume()?;
        Ok(fake)
    }

    /// The served runtime.
    pub fn runtime(&self) -> &FakeRuntime {
        &self.runtime
    }

    /// The socket's path.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("cri.sock")
    }

    /// The socket as a value of `containerRuntimeEndpoint`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Cuts all connections and removes the socket. The state of the runtime remains.
    pub fn crash(&mut self) {
        if let Some(executor) = self.executor.take() {
            executor.shutdown_background();
        }
        // It is missing if nothing was served; the next bind would report a leftover.
        drop(std::fs::remove_file(self.socket()));
    }

    /// Serves again after a crash.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.crash();
        let executor = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fake-cri")
            .enable_all()
            .build()
            .context("making the fake runtime's executor")?;
        let listener = {
            let _context = executor.enter();
            let socket = self.socket();
            UnixListener::bind(&socket).with_context(|| format!("binding {}", socket.display()))?
        };
        let server = Server::builder()
            .add_service(RuntimeServiceServer::new(Runtimes::new(self.runtime.clone())))
            .add_service(ImageServiceServer::new(Images::new(self.runtime.clone())))
            .serve_with_incoming(UnixListenerStream::new(listener));
        executor.spawn(server);
        self.executor = Some(executor);
        Ok(())
    }
}

impl Drop for FakeCri {
    fn drop(&mut self) {
        self.crash();
    }
}

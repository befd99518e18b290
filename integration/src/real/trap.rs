//! A proxy to containerd that kills the daemon at a chosen call: before it reaches containerd, while containerd processes it, or
//! before its response is delivered.
//!
//! containerd's socket is renamed, and the trap listens in its place, so that the paths of the daemon and of shims are unchanged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Poll interval of a file.
const GLANCE: Duration = Duration::from_micros(200);

/// When the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At this call, before it reaches containerd.
    Before(&'static str),
    /// This long after the call reached containerd.
    During(&'static str, Duration),
    /// When containerd has responded, before the response is delivered.
    After(&'static str),
    /// During a store write.
    StoreWrite,
}

/// The armed trap, and whether it was triggered.
#[derive(Debug)]
enum Spring {
    Set(Moment, u32),
    Sprung,
}

/// The trap. It serves until the test process exits.
#[derive(Clone, Debug)]
pub struct Trap {
    spring: Arc<Mutex<Spring>>,
    store: PathBuf,
}

impl Trap {
    /// Replaces containerd on `socket`; `store` is the file of the daemon's store.
    pub(super) fn lay(socket: &Path, store: PathBuf) -> Result<Self> {
        let behind = socket.with_extension("behind");
        fs::rename(socket, &behind).with_context(|| format!("renaming {}", socket.display()))?;
        let trap = Self { spring: Arc::new(Mutex::new(Spring::Sprung)), store };
        let listener = std::os::unix::net::UnixListener::bind(socket)
            .with_context(|| format!("binding {}", socket.display()))?;
        listener.set_nonblocking(true).context("a listener that does not block")?;
        // A separate thread, because tests wait for programs that use it.
        let serving = trap.clone();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(serving.serve(listener, behind)))
        });
        Ok(trap)
    }

    fn lock(&self) -> MutexGuard<'_, Spring> {
        self.spring.lock()
    }

    /// Arms the trap for the daemon with this PID, once.
    pub fn set(&self, moment: Moment, pid: u32) {
        *self.lock() = Spring::Set(moment, pid);
        if moment == Moment::StoreWrite {
            let trap = self.clone();
            thread::spawn(move || trap.watch_store());
        }
    }

    /// Whether it was triggered.
    pub fn has_sprung(&self) -> bool {
        matches!(*self.lock(), Spring::Sprung)
    }

    fn watch_store(&self) {
        let look =
            || fs::metadata(&self.store).ok().map(|file| (file.ino(), file.mtime(), file.mtime_nsec()));
        let before = look();
        while matches!(*self.lock(), Spring::Set(Moment::StoreWrite, _)) {
            if look() != before {
                return self.spring(|moment| moment == Moment::StoreWrite);
            }
            thread::sleep(GLANCE);
        }
    }

    /// Kills the daemon if the trap is armed for this moment.
    fn spring(&self, is_now: impl Fn(Moment) -> bool) {
        let mut spring = self.lock();
        if let Spring::Set(moment, pid) = *spring
            && is_now(moment)
        {
            // The test notices a daemon that exited by itself.
            let _ = i32::try_from(pid).map(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL));
            *spring = Spring::Sprung;
        }
    }

    async fn serve(self, listener: std::os::unix::net::UnixListener, behind: PathBuf) -> Result<()> {
        let listener = UnixListener::from_std(listener)?;
        let mut connections = JoinSet::new();
        loop {
            let (near, _) = listener.accept().await?;
            connections.spawn(lead_on(near, behind.clone(), self.clone()));
            while connections.try_join_next().is_some() {}
        }
    }

    /// Handles one call.
    async fn pass(
        self,
        mut on: SendRequest<Incoming>,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let call = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let moment = match *self.lock() {
            Spring::Set(moment, _) => Some(moment),
            Spring::Sprung => None,
        };
        match moment {
            Some(Moment::Before(at)) if at == call => self.spring(|now| now == Moment::Before(at)),
            Some(Moment::During(at, pause)) if at == call => {
                let answer = on.send_request(request);
                sleep(pause).await;
                self.spring(|now| now == Moment::During(at, pause));
                return answer.await;
            }
            Some(Moment::After(at)) if at == call => {
                on.send_request(request).await?;
                self.spring(|now| now == Moment::After(at));
            }
            _ => return on.send_request(request).await,
        }
        // The connection closes with the daemon.
        std::future::pending().await
    }
}

/// Handles one connection until either side closes it.
async fn lead_on(near: UnixStream, behind: PathBuf, trap: Trap) -> Result<()> {
    let far = UnixStream::connect(behind).await?;
    let (on, connection) = handshake(TokioExecutor::new(), TokioIo::new(far)).await?;
    let pass = service_fn(move |request| trap.clone().pass(on.clone(), request));
    let served = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(near), pass);
    tokio::select! {
        // Cancel-safe: the end of one direction closes both.
        _ = served => {}
        _ = connection => {}
    }
    Ok(())
}

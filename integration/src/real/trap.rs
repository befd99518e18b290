//! A way to containerd that ends the daemon with SIGKILL at a call one chooses: before it goes on to containerd, while containerd is
//! at it, or when its answer is there and not yet delivered. The daemon has no part in that.
//!
//! containerd's socket is renamed, and the trap listens in its place: the daemon finds what it always does, and so do
//! containerd's shims.

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

/// Between two looks at a file that is to change.
const GLANCE: Duration = Duration::from_micros(200);

/// When the daemon is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When it made this call, of which containerd never hears.
    Before(&'static str),
    /// So long after containerd was asked.
    During(&'static str, Duration),
    /// When containerd has answered, which the daemon never hears.
    After(&'static str),
    /// While it writes its store.
    StoreWrite,
}

/// What is to happen, and whether it did.
#[derive(Debug)]
enum Spring {
    Set(Moment, u32),
    Sprung,
}

/// The trap. It serves until the test's process ends.
#[derive(Clone, Debug)]
pub struct Trap {
    spring: Arc<Mutex<Spring>>,
    store: PathBuf,
}

impl Trap {
    /// Takes the place of containerd on `socket`; `store` is the file of the daemon's store.
    pub(super) fn lay(socket: &Path, store: PathBuf) -> Result<Self> {
        let behind = socket.with_extension("behind");
        fs::rename(socket, &behind).with_context(|| format!("renaming {}", socket.display()))?;
        let trap = Self { spring: Arc::new(Mutex::new(Spring::Sprung)), store };
        let listener = std::os::unix::net::UnixListener::bind(socket)
            .with_context(|| format!("binding {}", socket.display()))?;
        listener.set_nonblocking(true).context("a listener that does not block")?;
        // A thread of its own: tests wait for programs that speak through it.
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

    /// Has the daemon of this pid end at this moment, once.
    pub fn set(&self, moment: Moment, pid: u32) {
        *self.lock() = Spring::Set(moment, pid);
        if moment == Moment::StoreWrite {
            let trap = self.clone();
            thread::spawn(move || trap.watch_store());
        }
    }

    /// Whether the moment came.
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

    /// Ends the daemon, if it is to be ended at this moment.
    fn spring(&self, is_now: impl Fn(Moment) -> bool) {
        let mut spring = self.lock();
        if let Spring::Set(moment, pid) = *spring
            && is_now(moment)
        {
            // One that has ended by itself is noticed by the test.
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

    /// One call.
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
        // The connection ends with the daemon.
        std::future::pending().await
    }
}

/// One connection, until either end of it is gone.
async fn lead_on(near: UnixStream, behind: PathBuf, trap: Trap) -> Result<()> {
    let far = UnixStream::connect(behind).await?;
    let (on, connection) = handshake(TokioExecutor::new(), TokioIo::new(far)).await?;
    let pass = service_fn(move |request| trap.clone().pass(on.clone(), request));
    let served = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(near), pass);
    tokio::select! {
        // Cancel-safe, both: the end of one is that of the other.
        _ = served => {}
        _ = connection => {}
    }
    Ok(())
}

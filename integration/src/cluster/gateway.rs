//! A port on the machine's loopback whose connections are forwarded into a network namespace, through which tests reach the
//! isolated API server.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// An open gateway. Dropping it closes it, with all its connections.
#[derive(Debug)]
pub(super) struct Gateway {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Opens a port whose connections are forwarded to `target` in the network namespace of the file `netns`.
    pub(super) fn open(netns: &Path, target: SocketAddr) -> Result<Self> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on the loopback")?;
        listener.set_nonblocking(true).context("a listener that does not block")?;
        let port = listener.local_addr().context("the address listened on")?.port();
        let netns = File::open(netns).with_context(|| format!("opening {}", netns.display()))?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("gateway".to_owned())
            .spawn(move || serve(&netns, listener, target, stopped, &ready))
            .context("starting a thread")?;
        is_ready.recv().context("the gateway ended")??;
        Ok(Self { port, stop: Some(stop), thread: Some(thread) })
    }

    /// The port on the machine's loopback.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread. A socket belongs to its thread's namespace at creation, so only this thread enters the namespace.
fn serve(
    netns: &File,
    listener: StdListener,
    target: SocketAddr,
    stopped: oneshot::Receiver<()>,
    ready: &SyncSender<Result<()>>,
) {
    let prepared = setns(netns, CloneFlags::CLONE_NEWNET)
        .map_err(|error| anyhow!("entering the network namespace: {error}"))
        .and_then(|()| Builder::new_current_thread().enable_io().build().context("a runtime"));
    let runtime = match prepared {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let _ = ready.send(Ok(()));
    runtime.block_on(forward(listener, target, stopped));
}

async fn forward(listener: StdListener, target: SocketAddr, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Cancel-safe: a receiver can be polled again.
            _ = &mut stopped => return,
            // Cancel-safe: no connection is lost by accept.
            accepted = listener.accept() => {
                let Ok((mut near, _)) = accepted else { continue };
                connections.spawn(async move {
                    let mut far = TcpStream::connect(target).await?;
                    copy_bidirectional(&mut near, &mut far).await
                });
            }
            // Cancel-safe: no result is lost by join_next. Results of connections are ignored.
            Some(_) = connections.join_next() => {}
        }
    }
}

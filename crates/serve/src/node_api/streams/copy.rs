//! Connects a client to the runtime as it is.

use std::future::pending;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::idle::Activity;
use super::reports::Reports;

/// Size of the buffer of a direction: what TLS encrypts at once.
pub(super) const BUFFER: usize = 16 << 10;

/// How long a client may still send after the runtime has finished: closing a connection with unread bytes discards those that the
/// client has not read.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// How much of what a client has sent may wait for the runtime, in bytes. The client is read that far ahead, because only reading shows
/// that it has left.
const AHEAD: usize = 256 << 10;

/// How long the runtime may take for the last bytes of a client that has left.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// Copies both ways until one side ends, or nothing has passed for `idle`. Then both are closed. A port-forward has `reports`.
pub(super) async fn copy<C, R>(client: C, runtime: R, reports: Option<Reports>, idle: Duration)
where
    C: AsyncRead + AsyncWrite,
    R: AsyncRead + AsyncWrite,
{
    let activity = Activity::new(idle);
    let (mut from_client, mut to_client) = split(client);
    let (mut from_runtime, mut to_runtime) = split(runtime);
    let has_finished = tokio::select! {
        // Cancel-safe, all: the session ends with any of them.
        () = send(&mut from_client, &mut to_runtime, &activity) => false,
        () = receive(&mut from_runtime, &mut to_client, reports, &activity) => true,
        () = activity.idle() => false,
    };
    if has_finished {
        let lingering = async {
            // Either fails if the client has left.
            let _ = to_client.shutdown().await;
            let _ = tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await;
        };
        let _ = timeout(LINGER, lingering).await;
    }
}

/// Sends what the client sends until it leaves. Never ends if the runtime takes no more: what the runtime has sent is still to be received.
async fn send<C: AsyncRead, R: AsyncWrite>(
    from_client: &mut ReadHalf<C>,
    to_runtime: &mut WriteHalf<R>,
    activity: &Activity,
) {
    let (mut read, mut sending) = (BytesMut::new(), BytesMut::new());
    loop {
        if sending.is_empty() {
            std::mem::swap(&mut read, &mut sending);
        }
        read.reserve(BUFFER);
        tokio::select! {
            // Cancel-safe: bytes are read into the buffer only when returned.
            received = from_client.read_buf(&mut read), if read.len() < AHEAD => match received {
                Ok(1..) => activity.note(),
                Ok(0) | Err(_) => break,
            },
            // Cancel-safe: bytes leave the buffer only when they are sent.
            sent = to_runtime.write_buf(&mut sending), if !sending.is_empty() => match sent {
                Ok(1..) => activity.note(),
                Ok(0) | Err(_) => return pending().await,
            },
        }
    }
    let last = async {
        // Fails if the runtime has left as well.
        let _ = to_runtime.write_all_buf(&mut sending.chain(read)).await;
    };
    let _ = timeout(LAST_BYTES, last).await;
}

/// Passes on what the runtime sends until it ends, or the client takes no more.
async fn receive<R: AsyncRead, C: AsyncWrite>(
    from_runtime: &mut ReadHalf<R>,
    to_client: &mut WriteHalf<C>,
    mut reports: Option<Reports>,
    activity: &Activity,
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = match from_runtime.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        activity.note();
        let written = match &mut reports {
            Some(reports) => to_client.write_all(&reports.filter(&buffer[..read])).await,
            None => to_client.write_all(&buffer[..read]).await,
        };
        if written.is_err() || to_client.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{duplex, join};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_bytes_of_the_runtime_arrive_although_the_client_still_sends() {
        let ((client, mut near), (runtime, mut far)) = (duplex(64), duplex(64));
        let copying = copy(client, runtime, None, Duration::from_secs(3600));
        let ends = async {
            far.write_all(&[7; 1000]).await.unwrap();
            drop(far);
        };
        let reads = async {
            near.write_all(b"late").await.unwrap();
            let mut all = Vec::new();
            near.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, [7; 1000]);
        };
        tokio::join!(copying, ends, reads);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_and_an_idle_one_close_the_runtimes_connection() {
        for leaves in [true, false] {
            let ((client, near), (runtime, mut far)) = (duplex(64), duplex(64));
            let began = tokio::time::Instant::now();
            let kept = (!leaves).then_some(near);
            let closed = async { far.read(&mut [0; 8]).await.unwrap() };
            let (copied, read) = tokio::join!(copy(client, runtime, None, Duration::from_secs(60)), closed);
            assert_eq!((copied, read), ((), 0));
            assert_eq!(began.elapsed().as_secs(), if leaves { 0 } else { 60 });
            drop(kept);
        }
    }

    /// A runtime that takes no more bytes than it has buffers.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_is_noticed_although_the_runtime_takes_no_bytes() {
        let ((client, mut near), (runtime, mut far)) = (duplex(1 << 20), duplex(64));
        let began = tokio::time::Instant::now();
        let leaves = async {
            near.write_all(&[7; AHEAD]).await.unwrap();
            drop(near);
        };
        tokio::join!(copy(client, runtime, None, Duration::from_secs(3600)), leaves);
        assert_eq!(began.elapsed(), LAST_BYTES);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.unwrap();
        assert_eq!(taken, [7; 64]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_has_sent_everything() {
        let ((client, mut near), (runtime, mut far)) = (duplex(1 << 20), duplex(64));
        let leaves = async {
            near.write_all(&[7; AHEAD]).await.unwrap();
            drop(near);
        };
        let mut taken = Vec::new();
        let takes = far.read_to_end(&mut taken);
        let _ = tokio::join!(copy(client, runtime, None, Duration::from_secs(3600)), leaves, takes);
        assert!(taken == [7; AHEAD], "{} bytes", taken.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_runtime_has_sent_arrives_although_it_takes_no_more() {
        let (client, mut near) = duplex(64);
        let ((from_runtime, mut sends), (to_runtime, takes)) = (duplex(64), duplex(64));
        drop(takes);
        let copying = copy(client, join(from_runtime, to_runtime), None, Duration::from_secs(3600));
        let ends = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sends.write_all(b"exit status").await.unwrap();
            drop(sends);
        };
        let reads = async {
            near.write_all(b"input").await.unwrap();
            let mut all = Vec::new();
            near.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, b"exit status");
        };
        tokio::join!(copying, ends, reads);
    }
}

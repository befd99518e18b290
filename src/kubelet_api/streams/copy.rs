//! Connects a client to the runtime as it is.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::idle::Activity;

/// Size of the buffer of a direction: what TLS encrypts at once.
pub(super) const BUFFER: usize = 16 << 10;

/// How long a client may still send after the runtime has finished: closing a connection with unread bytes discards those that the
/// client has not read.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Copies both ways until one side ends, or nothing has passed for `idle`. Then both are closed.
pub(super) async fn copy<C, R>(client: C, runtime: R, idle: Duration)
where
    C: AsyncRead + AsyncWrite,
    R: AsyncRead + AsyncWrite,
{
    let activity = Activity::new(idle);
    let (mut from_client, mut to_client) = split(client);
    let (mut from_runtime, mut to_runtime) = split(runtime);
    let has_finished = tokio::select! {
        // Cancel-safe, all: the session ends with any of them.
        () = one_way(&mut from_client, &mut to_runtime, &activity) => false,
        () = one_way(&mut from_runtime, &mut to_client, &activity) => true,
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

/// Copies until the reader ends or either fails: whichever side has left, the other one is told by closing.
async fn one_way<R: AsyncRead, W: AsyncWrite>(
    from: &mut ReadHalf<R>,
    to: &mut WriteHalf<W>,
    activity: &Activity,
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        activity.note();
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_bytes_of_the_runtime_arrive_although_the_client_still_sends() {
        let ((client, mut near), (runtime, mut far)) = (duplex(64), duplex(64));
        let copying = copy(client, runtime, Duration::from_secs(3600));
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
            let (copied, read) = tokio::join!(copy(client, runtime, Duration::from_secs(60)), closed);
            assert_eq!((copied, read), ((), 0));
            assert_eq!(began.elapsed().as_secs(), if leaves { 0 } else { 60 });
            drop(kept);
        }
    }
}
